// What one simulated agent does in an iteration: an intention, often asked for again, for
// agents and their SDKs retry; now and then one of long ago.
import exec from 'k6/execution';
import { config } from './config.js';
import { Intention } from './intention.js';

/** @typedef {import('./lifecycle.js').Run} Run */

const kept = 200;
/** @type {Intention[]} the intentions of this VU, oldest overwritten */
const earlier = [];
let made = 0;

/**
 * Of every ten intentions, four are asked for twice at once later on, one is reworded, and
 * one of long ago is asked for again and compared with its receipt.
 * @param {Run} data
 * @param {string[]} kinds  taken in turn
 */
export function journey(data, kinds) {
  const n = exec.scenario.iterationInTest;
  const there = kinds.filter((kind) => kind in config.tools);
  const it = new Intention(data.run, there[n % there.length] ?? '', n);
  it.ask();
  if (it.tool.class === 'read_only') {
    return;
  }
  if (n % 5 < 2) {
    it.askAtOnce(2);
  }
  if (n % 10 === 3 && it.result !== null && it.tool.reworded) {
    it.askChanged(it.tool.reworded, 422);
  }
  if (n % 10 === 7 && earlier.length > 0) {
    const old = earlier[(n * 31) % earlier.length];
    old?.ask();
    old?.confirm();
  }
  earlier[made++ % kept] = it;
}
