// Hours at a modest rate: nothing that was promised is forgotten, and nothing grows slower.
// Each VU goes on asking for intentions of long ago and compares them with their receipts.
import { begin, count, duration, end, summarise, thresholds } from './lib/latchkey.js';
import { journey } from './lib/journey.js';

const rate = count('RATE', 20);

export const options = {
  scenarios: {
    hours: { executor: /** @type {const} */ ('constant-arrival-rate'), rate, timeUnit: '1s', duration: duration('DURATION', '2h'), preAllocatedVUs: rate * 2, maxVUs: rate * 8 },
  },
  thresholds: thresholds({
    'latchkey_answer_time{how:first}': [`p(99)<${count('FIRST_P99_MS', 1000)}`],
    'latchkey_answer_time{how:replay}': [`p(99)<${count('REPLAY_P99_MS', 500)}`],
    latchkey_receipts_checked: ['count>0'],
    latchkey_duplicates_prevented: ['count>0'],
    latchkey_turned_away: ['rate<0.001'],
  }),
  tags: { script: 'soak' },
};

const kinds = ['effectful', 'deduped', 'idempotent', 'hot'];

export function setup() {
  return begin(kinds);
}

/** @param {import('./lib/lifecycle.js').Run} data */
export default function (data) {
  journey(data, kinds);
}

/** @param {import('./lib/lifecycle.js').Run} data */
export function teardown(data) {
  end(data);
}

/** @param {any} data */
export function handleSummary(data) {
  return summarise('soak', data);
}
