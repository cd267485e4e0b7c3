// One answer held against the gateway's contract, without regard to any other answer.
import { breaks } from './metrics.js';

/** @typedef {import('k6/http').RefinedResponse<'text'>} Response */

/**
 * @typedef {object} Receipt
 * @property {string|null} key
 * @property {string} status
 * @property {boolean} replayed
 * @property {string} retry
 * @property {string} advice
 * @property {unknown} outcome
 * @property {string} tool
 * @property {string} class
 * @property {number} executions
 * @property {string|null} trace_id
 */

/**
 * @typedef {object} Problem
 * @property {string} type
 * @property {string} title
 * @property {number} status
 * @property {string} detail
 * @property {string} code
 * @property {string} retry
 * @property {string} advice
 * @property {string} [earlier_key]
 * @property {string} [pointer]
 */

/**
 * @typedef {object} Answer
 * @property {number} code      HTTP status; 0: there was no answer
 * @property {Receipt|null} receipt
 * @property {Problem|null} problem
 * @property {number} ms
 */

// What each status of a receipt is answered with: HTTP status and word in retry.
/** @type {Record<string, Array<[number, string]>>} */
const receipts = {
  completed: [[200, 'never']],
  started: [[202, 'same_key']],
  unknown: [[202, 'never']],
  awaiting_approval: [[202, 'never']],
  rejected: [[424, 'corrected'], [503, 'same_key']],
};

// What each code of a problem is answered with.
/** @type {Record<string, Array<[number, string]>>} */
const problems = {
  idempotency_conflict: [[422, 'never']],
  step_conflict: [[409, 'never']],
  result_expired: [[410, 'never']],
  idempotency_key_required: [[400, 'corrected']],
  bad_request: [[400, 'corrected']],
  invalid_arguments: [[400, 'corrected']],
  downstream_error: [[502, 'same_key'], [504, 'same_key']],
};

/** HTTP statuses of problems whose codes have no name in the contract. */
const unnamed = [401, 403, 404, 405, 413, 415, 500, 503];

/** @param {Response} response @param {string} name */
export function header(response, name) {
  for (const [known, value] of Object.entries(response.headers)) {
    if (known.toLowerCase() === name.toLowerCase()) {
      return value;
    }
  }
  return '';
}

/** @param {string|null} text @returns {Record<string, any>|null} */
export function object(text) {
  try {
    const value = JSON.parse(text ?? '');
    return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** @param {string} why @returns {string} */
const at = (why) => why.slice(0, 200);

/**
 * Reads the answer of a call and counts whatever the contract does not allow.
 * @param {Response} response
 * @returns {Answer}
 */
export function read(response) {
  const answer = { code: response.status, receipt: null, problem: null, ms: response.timings.duration };
  if (response.status === 0) {
    return answer;
  }
  const body = object(response.body);
  const media = header(response, 'Content-Type').split(';')[0]?.trim();
  if (body === null) {
    breaks('unexpected', at(`${response.status} with a body that is no JSON object`));
    return answer;
  }
  if (media === 'application/problem+json') {
    const problem = /** @type {Problem} */ (body);
    checkProblem(response, problem);
    return { ...answer, problem };
  }
  const receipt = /** @type {Receipt} */ (body);
  checkReceipt(response, receipt);
  return { ...answer, receipt };
}

/** @param {Response} response @param {Problem} p */
function checkProblem(response, p) {
  const allowed = problems[p.code];
  const known = allowed ? allowed.some(([code]) => code === response.status) : unnamed.includes(response.status);
  if (!known || p.status !== response.status || !p.type || !p.title || !p.detail || !p.code) {
    breaks('unexpected', at(`${response.status} problem ${p.code}`));
  }
  if (allowed && !allowed.some(([code, retry]) => code === response.status && retry === p.retry)) {
    breaks('retry_word', at(`${p.code} says ${p.retry}`));
  }
  if (!p.advice) {
    breaks('advice_missing', at(`problem ${p.code}`));
  }
  if (response.status === 503) {
    retryAfter(response);
  }
  shouldRetry(response, p.retry);
  if (header(response, 'Idempotent-Replayed') === 'true') {
    breaks('replayed_flag', at(`problem ${p.code} says that it is a replay`));
  }
  if ('outcome' in p) {
    breaks('conflict', at(`problem ${p.code} has an outcome`));
  }
}

/** @param {Response} response @param {Receipt} r */
function checkReceipt(response, r) {
  const reading = r.key === null;
  const allowed = reading ? [/** @type {[number, string]} */ ([200, 'same_key'])] : receipts[r.status];
  if (!allowed || !allowed.some(([code]) => code === response.status) || !/^[0-9a-f]{64}$/.test(r.key ?? '0'.repeat(64))) {
    breaks('unexpected', at(`${response.status} with a receipt that is ${r.status}`));
    return;
  }
  if (!allowed.some(([code, retry]) => code === response.status && retry === r.retry)) {
    breaks('retry_word', at(`${r.status} with ${response.status} says ${r.retry}`));
  }
  shouldRetry(response, r.retry);
  if (header(response, 'Idempotent-Replayed') !== String(r.replayed)) {
    breaks('replayed_flag', at(`the header says ${header(response, 'Idempotent-Replayed') || 'nothing'}, the receipt ${r.replayed}`));
  }
  if (!reading && header(response, 'Latchkey-Receipt') !== r.key) {
    breaks('address', at('Latchkey-Receipt is not the key'));
  }
  if (r.status === 'completed') {
    if (r.outcome === null || r.outcome === undefined) {
      breaks('unexpected', at('completed without an outcome'));
    }
    return;
  }
  if (!r.advice) {
    breaks('advice_missing', at(r.status));
  }
  if (response.status === 202) {
    if (header(response, 'Location') !== `/v1/receipts/${r.key}`) {
      breaks('address', at(`${r.status}: Location is not the receipt's`));
    }
    retryAfter(response);
    if (r.outcome !== null && r.outcome !== undefined) {
      breaks('pending_with_outcome', at(r.status));
    }
  } else if (response.status === 503) {
    retryAfter(response);
  }
  if (r.status === 'unknown' && !r.advice?.includes(`/v1/receipts/${r.key}`)) {
    breaks('advice_missing', at('the advice on an unknown outcome does not say where to look'));
  }
}

/** @param {Response} response */
function retryAfter(response) {
  if (!/^[1-9]\d*$/.test(header(response, 'Retry-After'))) {
    breaks('address', at(`${response.status} without Retry-After`));
  }
}

/** @param {Response} response @param {string} retry */
function shouldRetry(response, retry) {
  const said = header(response, 'X-Should-Retry');
  if (said !== (retry === 'same_key' ? '' : 'false')) {
    breaks('should_retry', at(`retry is ${retry}, X-Should-Retry ${said || 'absent'}`));
  }
}
