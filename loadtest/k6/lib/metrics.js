// The metrics of every script, and the thresholds that are promises rather than budgets.
import { Counter, Rate, Trend } from 'k6/metrics';

export const calls = new Counter('latchkey_calls');
export const firstTimes = new Counter('latchkey_first_times');
export const replays = new Counter('latchkey_replays');
export const duplicatesPrevented = new Counter('latchkey_duplicates_prevented');
export const unknown = new Counter('latchkey_unknown');
export const started = new Counter('latchkey_started');
export const awaitingApproval = new Counter('latchkey_awaiting_approval');
export const rejected = new Counter('latchkey_rejected');
export const conflicts = new Counter('latchkey_conflicts');
/** 503: provably nothing was done. */
export const notSent = new Counter('latchkey_not_sent');
/** The client hung up or the connection broke: no answer, so nothing to hold against the contract. */
export const noAnswer = new Counter('latchkey_no_answer');
/** Of all calls, those that were not sent or got no answer. */
export const turnedAway = new Rate('latchkey_turned_away');
/** Time to the answer, tagged how: first, replay, pending, refused, conflict, read. */
export const answerTime = new Trend('latchkey_answer_time', true);
export const effectsSeen = new Counter('latchkey_effects_seen');
export const receiptsChecked = new Counter('latchkey_receipts_checked');
export const ledgerReads = new Counter('latchkey_ledger_reads');

/**
 * What must never happen. Each is counted in a metric of its own, latchkey_broken_NAME, so
 * that a failed run names the promise that was broken.
 */
const promises = Object.freeze({
  two_results: 'two different results for one key',
  replay_differs: 'a replay differs from the first answer',
  two_first_times: 'two answers for one key that say they are the first',
  key_moved: 'one intention led to two keys',
  settled_changed: 'completed, and later something else',
  pending_with_outcome: 'a result shown while it is not settled',
  advice_missing: 'no advice where a caller needs it',
  retry_word: 'the word in retry does not go with the status',
  should_retry: 'X-Should-Retry does not go with retry',
  replayed_flag: 'Idempotent-Replayed and replayed disagree',
  address: 'Location, Retry-After or Latchkey-Receipt missing or wrong',
  conflict: 'a changed call was not refused, or its refusal shows the stored result',
  unexpected: 'an answer that the contract does not know',
  double_effect: 'the ledger has two effects under one key',
  ledger_disagrees: 'a receipt and the ledger tell different things',
});

/** @typedef {keyof typeof promises} Promised */

/** @type {Record<string, Counter>} */
const broken = {};
for (const name of Object.keys(promises)) {
  broken[name] = new Counter(`latchkey_broken_${name}`);
}

/** @type {ReadonlyArray<[string, string]>} */
export const promiseTexts = Object.entries(promises).map(([name, said]) => [`latchkey_broken_${name}`, said]);

let told = 0;

/**
 * Counts a broken promise and says which, a few times per VU.
 * @param {Promised} promise
 * @param {string} detail without arguments and results
 */
export function breaks(promise, detail) {
  broken[promise]?.add(1);
  if (told++ < 5) {
    console.error(`BROKEN: ${promises[promise]}: ${detail}`);
  }
}

/** Gives every counter a sample, so that a summary shows a 0 and not nothing. */
export function zero() {
  for (const counter of [...Object.values(broken), calls, firstTimes, replays, duplicatesPrevented, unknown, started,
    awaitingApproval, rejected, conflicts, notSent, noAnswer, effectsSeen, receiptsChecked, ledgerReads]) {
    counter.add(0);
  }
}

/**
 * The promises as thresholds, that something was called at all, and a script's own.
 * @param {Record<string, string[]>} more
 * @returns {Record<string, string[]>}
 */
export function thresholds(more) {
  /** @type {Record<string, string[]>} */
  const all = { latchkey_calls: ['count>0'] };
  for (const [metric] of promiseTexts) {
    all[metric] = ['count==0'];
  }
  return { ...all, ...more };
}
