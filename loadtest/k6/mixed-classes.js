// Tools of every class side by side, each at a rate of its own: reads must not wait for
// effects, lost answers must not hold up the others, and each class keeps its own promises.
import exec from 'k6/execution';
import { begin, breaks, config, count, duration, end, Intention, summarise, thresholds } from './lib/latchkey.js';

const rate = count('RATE', 20);
const lasts = duration('DURATION', '1m');

/**
 * @param {string} fn
 * @param {number} share
 */
const arriving = (fn, share) => ({
  executor: /** @type {const} */ ('constant-arrival-rate'), exec: fn, rate: Math.max(1, Math.round(rate * share)), timeUnit: '1s', duration: lasts,
  preAllocatedVUs: rate, maxVUs: rate * 4, tags: { class: fn },
});

const scenarios = {
  reads: arriving('reads', 1),
  idempotent: arriving('idempotent', 0.5),
  effects: arriving('effects', 1),
  approvals: arriving('approvals', 0.1),
  lost: arriving('lost', 0.1),
  declined: arriving('declined', 0.1),
};

export const options = {
  scenarios,
  thresholds: thresholds({
    'latchkey_answer_time{how:read}': [`p(95)<${count('READ_P95_MS', 200)}`],
    'latchkey_answer_time{how:first}': [`p(95)<${count('FIRST_P95_MS', 500)}`],
    latchkey_duplicates_prevented: ['count>0'],
    latchkey_turned_away: ['rate<0.02'],
  }),
  tags: { script: 'mixed-classes' },
};

/** @typedef {import('./lib/lifecycle.js').Run} Run */

export function setup() {
  return begin(Object.keys(config.tools));
}

/**
 * @param {Run} data
 * @param {string} kind
 * @returns {Intention|null} null: this gateway has no such tool
 */
function intention(data, kind) {
  return kind in config.tools ? new Intention(data.run, kind, exec.scenario.iterationInTest) : null;
}

/** @param {Run} data */
export function reads(data) {
  intention(data, 'read')?.ask();
}

/** @param {Run} data */
export function idempotent(data) {
  const it = intention(data, 'idempotent');
  it?.ask();
  it?.ask();
}

/** @param {Run} data */
export function effects(data) {
  const kinds = ['effectful', 'deduped', 'hot'];
  const it = intention(data, kinds[exec.scenario.iterationInTest % kinds.length] ?? '');
  it?.ask();
  it?.askAtOnce(2);
  it?.confirm();
}

/** Nobody approves them here: they wait, however often they are asked for. @param {Run} data */
export function approvals(data) {
  const it = intention(data, 'irreversible');
  for (let i = 0; it && i < 2; i++) {
    const { receipt } = it.ask();
    if (receipt?.status === 'completed') {
      breaks('unexpected', 'an irreversible call completed that nobody approved');
    }
  }
}

/** The effect happens and its answer is lost: asked again, it is pending or found out, never done again. @param {Run} data */
export function lost(data) {
  const it = intention(data, 'lossy');
  it?.ask();
  it?.ask();
  it?.confirm();
}

/** @param {Run} data */
export function declined(data) {
  const answer = intention(data, 'declined')?.ask();
  if (answer?.receipt?.status === 'completed') {
    breaks('unexpected', 'a declined call completed');
  }
}

/** @param {Run} data */
export function teardown(data) {
  end(data);
}

/** @param {any} data */
export function handleSummary(data) {
  return summarise('mixed-classes', data);
}
