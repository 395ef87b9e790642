// SPDX-License-Identifier: MIT OR Apache-2.0
'use strict';

// planted.js EACH SEED FILE HOG: as planted.py, in Node: messages in async functions; `block` waits for a timer, `gc` is the collector's, in this thread (--expose-gc --single-threaded-gc).

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const tag = require('../node');

const WAYS = ['spin', 'faults', 'preempt', 'block', 'gc'];
const ORDINARY = 8, PAGE = 4096, WARM = 100;
const [each, seed] = process.argv.slice(2, 4).map(Number);
const [file, hogPath] = process.argv.slice(4);

const now = () => Number(process.hrtime.bigint());
let sink = 0;

function work(steps) {
  for (let i = 0; i < steps; i++) sink = (Math.imul(sink, 1664525) + 1013904223) | 0;
}

function spinFor(ns) {
  for (const until = now() + ns; now() < until; ) work(200);
}

const pages = Buffer.allocUnsafeSlow(3 * 2 ** 30);
let at = 0;

function touchNewPages(ns) {
  for (const until = now() + ns; now() < until; )
    for (let i = 0; i < 32; i++, at += PAGE) pages[at] = 1;
}

// Pipes that the loop does not watch: who writes and reads waits for the kernel, not for the loop.
function startHog() {
  const path = `/tmp/planted-${process.pid}`;
  require('node:child_process').execFileSync('mkfifo', [`${path}.there`, `${path}.back`]);
  spawn('sh', ['-c', `exec "$0" <"${path}.there" >"${path}.back"`, hogPath], { stdio: ['ignore', 'ignore', 'inherit'] }).unref();
  const there = fs.openSync(`${path}.there`, 'w'), back = fs.openSync(`${path}.back`, 'r');
  fs.unlinkSync(`${path}.there`);
  fs.unlinkSync(`${path}.back`);
  const word = Buffer.alloc(8), answer = Buffer.alloc(1);
  return (ns) => {
    word.writeBigUInt64LE(BigInt(ns));
    fs.writeSync(there, word);
    fs.readSync(back, answer);
  };
}

let random = seed * 2654435761 + 88172645;
function next() {
  random = (Math.imul(random ^ (random >>> 15), 2246822519) + 374761393) >>> 0;
  return ((random ^ (random >>> 13)) >>> 0) / 2 ** 32;
}

function plan() {
  const delayed = WAYS.flatMap((way) => Array.from({ length: each }, () => [way, Math.floor(200000 * 10 ** next())]));
  for (let i = delayed.length - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1));
    [delayed[i], delayed[j]] = [delayed[j], delayed[i]];
  }
  return delayed;
}

const timer = (ns) => 1 + Math.ceil(ns / 1e6);
// A timer counts whole milliseconds from when the loop looked at the clock last: up to one of them has passed.
const sleep = (ns) => new Promise((resolve) => setTimeout(resolve, timer(ns)));

async function main() {
  // The hog is on CPU 0; this thread alone goes there, not the collector's.
  require('node:child_process').execFileSync('taskset', ['-cp', '0', process.pid]);
  const bePreempted = startHog();
  const lines = [];
  tag.follow();

  async function handle(way, ns) {
    const from = now();
    const id = tag.newId();
    let own;
    await tag.run({ id, name: `task ${way}` }, async () => {
      work(3000);
      await null;
      const began = now();
      if (way === 'spin') spinFor(ns);
      else if (way === 'faults') touchNewPages(ns);
      else if (way === 'preempt') bePreempted(ns);
      else if (way === 'block') await sleep(ns);
      else if (way === 'gc') global.gc();
      own = now() - began;
      work(3000);
    });
    if (way) lines.push([id, way, way === 'block' ? (timer(ns) - 1) * 1e6 : ns, now() - from, own]);
  }

  // The first ones are for the compiler.
  const warm = Array.from({ length: WARM }, (_, i) => [WAYS[i % WAYS.length], 1e6, true]);
  for (const [way, ns, isWarm] of [...warm, ...plan()]) {
    for (let i = 0; i < ORDINARY; i++) await handle(null, 0);
    // Beside one that waits another one works, so that the loop is not idle.
    await Promise.all([handle(way, ns), handle(null, 0)]);
    if (isWarm) lines.pop();
  }
  fs.writeFileSync(file, lines.map((line) => line.join(',') + '\n').join(''));
  process.exit(0);
}

main();
