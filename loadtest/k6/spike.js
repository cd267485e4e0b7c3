// Quiet, then all at once, then quiet again: an incident ends and a whole fleet wakes up. After
// the spike answers must be as quick as before it.
import { begin, count, duration, end, summarise, thresholds } from './lib/latchkey.js';
import { journey } from './lib/journey.js';

const base = count('BASE_RATE', 10);
const peak = count('PEAK_RATE', 300);

export const options = {
  scenarios: {
    before: { executor: /** @type {const} */ ('constant-arrival-rate'), rate: base, duration: '30s', preAllocatedVUs: base * 2, tags: { phase: 'before' } },
    spike: {
      executor: /** @type {const} */ ('ramping-arrival-rate'), startTime: '30s', startRate: base, preAllocatedVUs: peak, maxVUs: peak * 4, tags: { phase: 'spike' },
      stages: [{ target: peak, duration: '2s' }, { target: peak, duration: duration('SPIKE', '20s') }, { target: base, duration: '2s' }],
    },
    after: { executor: /** @type {const} */ ('constant-arrival-rate'), startTime: duration('AFTER', '1m10s'), rate: base, duration: '30s', preAllocatedVUs: base * 4, tags: { phase: 'after' } },
  },
  thresholds: thresholds({
    'latchkey_answer_time{phase:after}': [`p(95)<${count('AFTER_P95_MS', 300)}`],
    'latchkey_turned_away{phase:after}': ['rate<0.01'],
    latchkey_duplicates_prevented: ['count>0'],
  }),
  tags: { script: 'spike' },
};

const kinds = ['effectful', 'deduped', 'idempotent'];

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
  return summarise('spike', data);
}
