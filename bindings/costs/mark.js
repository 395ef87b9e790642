// SPDX-License-Identifier: MIT OR Apache-2.0
'use strict';

// The same as mark.c, in JavaScript.
const { begin } = require('../node');

const MARKS = 100000, BLOCKS = 20, WARM = 10;
let sink = 0;

function bare() {
  const from = process.hrtime.bigint();
  for (let i = 1; i <= MARKS; i++) sink ^= i;
  return Number(process.hrtime.bigint() - from);
}

function marked() {
  const from = process.hrtime.bigint();
  for (let i = 1; i <= MARKS; i++) {
    sink ^= i;
    begin(i);
  }
  return Number(process.hrtime.bigint() - from);
}

for (let block = -WARM; block < BLOCKS; block++) {
  const took = bare();
  const ns = (marked() - took) / MARKS;
  if (block >= 0) console.log(ns.toFixed(3));
}
