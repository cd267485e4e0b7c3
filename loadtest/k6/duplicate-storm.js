// A fleet retries: every intention is asked for many times, by whichever VU comes next, at a
// constant arrival rate. One acts; the others are the storm.
import exec from 'k6/execution';
import { begin, config, count, duration, end, Intention, summarise, thresholds } from './lib/latchkey.js';

const rate = count('RATE', 200);
const duplicates = count('DUPLICATES', 50, 2);
/** One answer in so many is compared with the receipt: that is how VUs are compared, for they share nothing. */
const confirmEvery = count('CONFIRM_EVERY', 10);

export const options = {
  scenarios: {
    storm: { executor: /** @type {const} */ ('constant-arrival-rate'), rate, timeUnit: '1s', duration: duration('DURATION', '1m'), preAllocatedVUs: rate, maxVUs: rate * 4 },
  },
  thresholds: thresholds({
    latchkey_duplicates_prevented: ['count>0'],
    latchkey_receipts_checked: ['count>0'],
    'latchkey_answer_time{how:replay}': [`p(95)<${count('REPLAY_P95_MS', 150)}`],
    latchkey_turned_away: ['rate<0.01'],
  }),
  tags: { script: 'duplicate-storm' },
};

const kinds = ['effectful', 'deduped', 'hot'];

/** @type {Intention|undefined} this VU's latest intention; the storm moves on */
let latest;

export function setup() {
  return begin(kinds);
}

/** @param {import('./lib/lifecycle.js').Run} data */
export default function (data) {
  const n = exec.scenario.iterationInTest;
  const which = Math.floor(n / duplicates);
  const there = kinds.filter((kind) => kind in config.tools);
  const kind = there[which % there.length] ?? '';
  if (latest?.step !== `${kind}-${which}`) {
    latest = new Intention(data.run, kind, which);
  }
  latest.ask();
  if (n % confirmEvery === 0) {
    latest.confirm();
  }
}

/** @param {import('./lib/lifecycle.js').Run} data */
export function teardown(data) {
  end(data);
}

/** @param {any} data */
export function handleSummary(data) {
  return summarise('duplicate-storm', data);
}
