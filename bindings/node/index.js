// SPDX-License-Identifier: MIT OR Apache-2.0
'use strict';

// Marks: a program says which message (request, task) it works on, and `perftax trace record` listens.
//
//   const tag = require('perftax-tag');
//   tag.follow();
//   tag.run({ name: 'GET /cart' }, async () => { ... });   // begins here, and ends when the promise is settled
//
// or by hand:
//
//   tag.begin(id); tag.switch(other); tag.end(id);
//
// Where nobody listens a mark is a load and a branch. With follow() messages follow AsyncLocalStorage: whatever runs for one (callbacks, continuations) is of it.

const { AsyncLocalStorage, createHook } = require('node:async_hooks');
const native = require('./build/Release/perftax_tag.node');

const NOBODY = 1;
// As perftax_tag_state, where it can be looked at without a call.
const state = native.state || new Uint32Array(1);

function begin(id) {
  if (state[0] !== NOBODY) native.begin(id);
}

function end(id) {
  if (state[0] !== NOBODY) native.end(id);
}

function turn(id) {
  if (state[0] !== NOBODY) native.switch(id);
}

function child(id, parent) {
  if (state[0] !== NOBODY) native.child(id, parent);
}

function name(id, text) {
  if (state[0] !== NOBODY) native.name(id, String(text));
}

function send(id) {
  if (state[0] !== NOBODY) native.send(id);
}

function receive(id) {
  if (state[0] !== NOBODY) native.receive(id);
}

// What others call it: a trace of 32 hexadecimal digits and a span of 16, as W3C's traceparent has them.
function identity(id, trace, span) {
  if (state[0] === NOBODY) return;
  native.identity(id, BigInt(`0x${trace.slice(0, 16)}`), BigInt(`0x${trace.slice(16)}`), BigInt(`0x${span}`));
}

function newId() {
  return native.newId();
}

const storage = new AsyncLocalStorage();
let hook;

// Messages follow AsyncLocalStorage from now on.
function follow() {
  if (hook) return;
  const outer = [];
  hook = createHook({
    // Without it a promise's continuation has no hooks of its own.
    init() {},
    before() {
      const at = storage.getStore();
      outer.push(at);
      if (at !== undefined && !at.isOver && state[0] !== NOBODY) native.switch(at.id);
    },
    after() {
      outer.pop();
      if (state[0] === NOBODY) return;
      const before = outer[outer.length - 1];
      native.switch(before === undefined || before.isOver ? 0 : before.id);
    },
  });
  hook.enable();
}

// Works on a message: from now on until what the function returns is settled, where that is a promise. Options: id, name, parent.
function run(options, work) {
  const id = options.id ?? newId();
  const before = storage.getStore();
  const parent = options.parent;
  // What was made for it may outlive it: timers, sockets.
  const message = { id, isOver: false };
  begin(id);
  if (options.name !== undefined) name(id, options.name);
  if (parent !== undefined) child(id, parent);
  const done = () => {
    message.isOver = true;
    end(id);
  };
  const over = () => {
    done();
    if (before !== undefined && !before.isOver) turn(before.id);
  };
  let result;
  try {
    result = storage.run(message, work, id);
  } catch (error) {
    over();
    throw error;
  }
  if (result === null || typeof result !== 'object' || typeof result.then !== 'function') {
    over();
    return result;
  }
  // Whoever called goes on with what it was at.
  turn(before === undefined || before.isOver ? 0 : before.id);
  return result.then(
    (value) => {
      done();
      return value;
    },
    (error) => {
      done();
      throw error;
    },
  );
}

// The message that runs now; undefined: none, or none that run() began.
function current() {
  const at = storage.getStore();
  return at === undefined || at.isOver ? undefined : at.id;
}

module.exports = {
  begin, end, switch: turn, child, name, identity, send, receive, newId, follow, run, current, isListened: native.isListened,
};
