// Many callers, one key, the same moment: in one batch over connections of their own, and
// from many VUs at once. Exactly one may act, and all must hold the same receipt.
import exec from 'k6/execution';
import { begin, breaks, config, count, end, Intention, summarise, thresholds } from './lib/latchkey.js';

const racers = count('RACERS', 20, 2);
const races = count('RACES', 50);
const vus = count('VUS', 20, 2);

export const options = {
  // Otherwise k6 sends six at a time to one host.
  batch: racers,
  batchPerHost: racers,
  scenarios: {
    batch: { executor: /** @type {const} */ ('shared-iterations'), exec: 'batch', vus: 2, iterations: races, maxDuration: '10m' },
    crowd: { executor: /** @type {const} */ ('per-vu-iterations'), exec: 'crowd', vus, iterations: races, maxDuration: '10m' },
  },
  thresholds: thresholds({
    latchkey_duplicates_prevented: ['count>0'],
    latchkey_receipts_checked: ['count>0'],
    latchkey_turned_away: ['rate<0.01'],
  }),
  tags: { script: 'race-on-one-key' },
};

const kinds = ['effectful', 'deduped', 'hot'];
const there = kinds.filter((kind) => kind in config.tools);

export function setup() {
  return begin(kinds);
}

/** @param {import('./lib/lifecycle.js').Run} data */
export function batch(data) {
  const n = exec.scenario.iterationInTest;
  const it = new Intention(data.run, there[n % there.length] ?? '', `batch-${n}`);
  const answers = it.askAtOnce(racers);
  // Unless some got no answer, one of them acted, or none did yet.
  const completed = answers.filter((answer) => answer.receipt?.status === 'completed');
  if (completed.length === racers && it.firstTimes !== 1) {
    breaks('two_first_times', `${it.firstTimes} of ${racers} racers say they were the first`);
  }
  it.confirm();
}

/** Every VU runs the same races, so that they meet without knowing of each other. @param {import('./lib/lifecycle.js').Run} data */
export function crowd(data) {
  const n = exec.vu.iterationInScenario;
  const it = new Intention(data.run, there[n % there.length] ?? '', `crowd-${n}`);
  it.ask();
  it.confirm();
}

/** @param {import('./lib/lifecycle.js').Run} data */
export function teardown(data) {
  end(data);
}

/** @param {any} data */
export function handleSummary(data) {
  return summarise('race-on-one-key', data);
}
