// An ordinary day: calls arrive at a constant rate, whether or not earlier ones were answered,
// so that waiting shows in the answer times instead of slowing the load down.
import { begin, count, duration, end, summarise, thresholds } from './lib/latchkey.js';
import { journey } from './lib/journey.js';

const rate = count('RATE', 50);

export const options = {
  scenarios: {
    day: { executor: /** @type {const} */ ('constant-arrival-rate'), rate, timeUnit: '1s', duration: duration('DURATION', '2m'), preAllocatedVUs: rate, maxVUs: rate * 4 },
  },
  thresholds: thresholds({
    'latchkey_answer_time{how:first}': [`p(95)<${count('FIRST_P95_MS', 250)}`, `p(99)<${count('FIRST_P99_MS', 1000)}`],
    'latchkey_answer_time{how:replay}': [`p(95)<${count('REPLAY_P95_MS', 100)}`],
    latchkey_duplicates_prevented: ['count>0'],
    latchkey_turned_away: ['rate<0.01'],
    http_req_failed: ['rate<0.01'],
    dropped_iterations: ['count==0'],
  }),
  tags: { script: 'load' },
};

const kinds = ['effectful', 'deduped', 'idempotent', 'read'];

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
  return summarise('load', data);
}
