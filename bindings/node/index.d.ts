/** A message's number: below 2^53, or a BigInt below 2^62; not 0. */
export type MessageId = number | bigint;

export interface MessageOptions {
  /** Its number; a new one without. */
  id?: MessageId;
  /** What it is called; 1024 bytes are kept. */
  name?: string;
  /** The message that it is part of. */
  parent?: MessageId;
}

/** The thread starts to work on message id. */
export function begin(id: MessageId): void;
/** Message id is done. */
export function end(id: MessageId): void;
declare function turn(id: MessageId): void;
export {
  /** The thread goes on with message id, which has begun already; 0: with none. */
  turn as switch,
};
export function child(id: MessageId, parent: MessageId): void;
export function name(id: MessageId, text: string): void;
/** What others call it: a trace of 32 hexadecimal digits and a span of 16. */
export function identity(id: MessageId, trace: string, span: string): void;
export function send(id: MessageId): void;
export function receive(id: MessageId): void;
/** A number that no other process of this PID namespace gives a message meanwhile. */
export function newId(): number;
/** Messages follow AsyncLocalStorage from now on. */
export function follow(): void;
/** Works on a message until the function has returned, and what it returns is settled, where that is a promise. */
export function run<T>(options: MessageOptions, work: (id: MessageId) => T): T;
/** The message that runs now, where run() began it. */
export function current(): MessageId | undefined;
export function isListened(): boolean;
