// More and more, until it hurts: how does the gateway behave beyond what it can carry? It may
// turn calls away (503, nothing sent) and be slow; it may break no promise.
import { begin, count, duration, end, summarise, thresholds } from './lib/latchkey.js';
import { journey } from './lib/journey.js';

const peak = count('PEAK_RATE', 400);
const stage = duration('STAGE', '1m');

export const options = {
  scenarios: {
    climb: {
      executor: /** @type {const} */ ('ramping-arrival-rate'), startRate: Math.ceil(peak / 8), timeUnit: '1s', preAllocatedVUs: peak, maxVUs: peak * 4,
      stages: [0.25, 0.5, 0.75, 1, 1, 0.1].map((part) => ({ target: Math.ceil(peak * part), duration: stage })),
    },
  },
  thresholds: thresholds({ latchkey_replays: ['count>0'], latchkey_duplicates_prevented: ['count>0'] }),
  tags: { script: 'stress' },
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
  return summarise('stress', data);
}
