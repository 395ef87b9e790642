// SPDX-License-Identifier: MIT OR Apache-2.0
'use strict';

// What is in the rings, read by the header's layout; programs that mark are processes of their own.

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');

const KINDS = ['', 'begin', 'end', 'switch'];
const SAYS = ['', 'child', 'send', 'receive', 'identity', 'name'];

function read(file) {
  const data = fs.readFileSync(file);
  const word = (at) => data.readBigUInt64LE(at);
  assert.strictEqual(data.toString('latin1', 0, 8), 'PTXMARK2');
  assert.strictEqual(BigInt(data.length), 4096n + 16n * word(16));
  const said = [];
  for (let at = 4096; at < 4096 + 16 * Number(word(64)); ) {
    const what = word(at + 8);
    at += 16;
    if (what & 3n) {
      said.push([KINDS[what & 3n], what >> 2n]);
      continue;
    }
    const kind = SAYS[(what >> 2n) & 0x3fn];
    if (kind === 'name') said.push([kind, word(at), data.toString('utf8', at + 16, at + 16 + Number(what >> 16n))]);
    else if (kind === 'identity') said.push([kind, word(at), (word(at + 16) << 64n) | word(at + 24), word(at + 8)]);
    else said.push(kind === 'child' ? [kind, word(at), word(at + 8)] : [kind, word(at)]);
    at += 16 * Number((what >> 8n) & 0xffn);
  }
  return { dropped: word(72), said };
}

// Runs a program; what each of its threads has said, and what it printed.
function run(program, { isListened = true, capacity = '', isLoaded = true } = {}) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'marks-'));
  try {
    const env = { ...process.env, TAG: path.dirname(__dirname), PERFTAX_MARKS: isListened ? folder : '', PERFTAX_MARKS_CAPACITY: capacity };
    const text = isLoaded ? `const tag = require(${JSON.stringify(path.dirname(__dirname))});\n${program}` : program;
    const printed = execFileSync(process.execPath, ['-e', text], { env, encoding: 'utf8' });
    return { rings: fs.readdirSync(folder).sort().map((name) => read(path.join(folder, name))), printed };
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

test('what is said is in the ring', () => {
  const { rings } = run(`
    tag.begin(7);
    tag.name(7, 'GET /ü');
    tag.name(7n, 'x'.repeat(2000));
    tag.child(7, 2n ** 61n);
    tag.identity(7, '4bf92f3577b34da6a3ce929d0e0e4736', 'f067aa0ba902b700');
    tag.send(7);
    tag.receive(7);
    tag.switch(0);
    tag.switch(7);
    tag.end(7);
  `);
  assert.deepStrictEqual(rings[0].said, [
    ['begin', 7n], ['name', 7n, 'GET /ü'], ['name', 7n, 'x'.repeat(1024)], ['child', 7n, 2n ** 61n],
    ['identity', 7n, 0x4bf92f3577b34da6a3ce929d0e0e4736n, 0xf067aa0ba902b700n], ['send', 7n], ['receive', 7n],
    ['switch', 0n], ['switch', 7n], ['end', 7n],
  ]);
});

test('nothing is written where nobody listens', () => {
  const { rings, printed } = run('tag.follow(); tag.run({ name: "x" }, () => console.log(tag.isListened()));', { isListened: false });
  assert.deepStrictEqual([rings, printed], [[], 'false\n']);
});

test('what is no message is refused', () => {
  const { rings, printed } = run(`
    for (const wrong of [-1, -1n, 2n ** 62n, 2n ** 64n, 'x', undefined])
      for (const what of ['begin', 'end', 'switch', 'send', 'receive']) {
        try {
          tag[what](wrong);
          console.log(what, wrong);
        } catch {}
      }
  `);
  assert.strictEqual(printed, '');
  assert.deepStrictEqual(rings.flatMap((ring) => ring.said), []);
});

test('a full ring drops and counts', () => {
  const { rings } = run('for (let i = 1; i <= 1000; i++) tag.begin(i);', { capacity: '128' });
  assert.deepStrictEqual([rings[0].dropped, rings[0].said.length, rings[0].said[127]], [1000n - 128n, 128, ['begin', 128n]]);
});

test('new numbers are the process’s own, and doubles', () => {
  const { printed } = run(`
    const [a, b] = [tag.newId(), tag.newId()];
    console.log(b - a, Math.floor(a / 2 ** 31) === process.pid % 2 ** 22, Number.isSafeInteger(a));
  `);
  assert.strictEqual(printed, '1 true true\n');
});

test('async functions take their messages along', () => {
  const { rings } = run(`
    tag.follow();
    tag.follow();
    const { setTimeout: sleep } = require('node:timers/promises');
    const handle = (id, ms) => tag.run({ id }, async () => {
      await sleep(ms);
      tag.name(id, 'after the timer');
    });
    Promise.all([handle(1, 30), handle(2, 60)]);
  `);
  const said = rings[0].said.filter((one, at, all) => at === 0 || one.join() !== all[at - 1].join());
  for (const id of [1n, 2n]) {
    const name = said.findIndex(([kind, message]) => kind === 'name' && message === id);
    assert.deepStrictEqual(said[name - 1], ['switch', id]);
    const end = said.findIndex(([kind, message]) => kind === 'end' && message === id);
    assert.ok(end > name);
  }
  // Each is left before the other one begins.
  const begin = said.findIndex(([kind, message]) => kind === 'begin' && message === 2n);
  assert.deepStrictEqual(said.slice(begin - 2, begin), [['begin', 1n], ['switch', 0n]]);
});

test('what a function returns or throws comes back', () => {
  const { rings, printed } = run(`
    tag.follow();
    console.log(tag.run({ id: 1 }, () => 5), tag.current());
    try { tag.run({ id: 2 }, () => { throw new Error('two') }) } catch (error) { console.log(error.message) }
    tag.run({ id: 3 }, async () => { throw new Error('three') }).catch((error) => console.log(error.message));
    tag.run({ id: 4 }, () => tag.run({ id: 5, parent: tag.current() }, () => console.log(tag.current())));
  `);
  assert.strictEqual(printed, '5 undefined\ntwo\n5\nthree\n');
  const said = rings[0].said;
  for (const id of [1n, 2n, 3n, 4n, 5n]) {
    assert.strictEqual(said.filter(([kind, message]) => kind === 'end' && message === id).length, 1);
  }
  // The outer one goes on when the inner one is done.
  const inner = said.findIndex(([kind, message]) => kind === 'end' && message === 5n);
  assert.deepStrictEqual([said[inner + 1], said.find(([kind]) => kind === 'child')], [['switch', 4n], ['child', 5n, 4n]]);
});

test('what a message leaves behind is of none when it is over', () => {
  const { rings } = run(`
    tag.follow();
    tag.run({ id: 1 }, () => { setTimeout(() => tag.name(9, 'later'), 20); });
  `);
  const said = rings[0].said;
  const end = said.findIndex(([kind, message]) => kind === 'end' && message === 1n);
  assert.ok(end > 0 && said.slice(end).every(([kind, message]) => kind !== 'switch' || message === 0n), String(said));
});

test('a worker alone may have it, and end', () => {
  const { printed } = run(`
    const { Worker } = require('node:worker_threads');
    const text = 'const tag = require(' + JSON.stringify(process.env.TAG) + '); tag.begin(2); tag.end(2);';
    new Worker(text, { eval: true }).on('exit', (code) => console.log('exit', code));
  `, { isLoaded: false });
  assert.strictEqual(printed, 'exit 0\n');
});

test('workers have rings of their own', () => {
  const { rings } = run(`
    const { Worker } = require('node:worker_threads');
    const text = 'const tag = require(' + JSON.stringify(${JSON.stringify(path.dirname(__dirname))}) + '); tag.begin(2); tag.end(2);';
    tag.begin(1);
    new Worker(text, { eval: true }).on('exit', () => tag.end(1));
  `);
  assert.deepStrictEqual(rings.map((ring) => ring.said).sort((a, b) => Number(a[0][1] - b[0][1])),
    [[['begin', 1n], ['end', 1n]], [['begin', 2n], ['end', 2n]]]);
});
