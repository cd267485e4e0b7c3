// Every row of the contract once, by one agent: does this gateway keep its word at all?
import { check } from 'k6';
import http from 'k6/http';
import { begin, breaks, config, count, end, Intention, params, read, summarise, thresholds } from './lib/latchkey.js';

export const options = {
  scenarios: { contract: { executor: 'shared-iterations', vus: 1, iterations: count('ITERATIONS', 1), maxDuration: '5m' } },
  thresholds: thresholds({ checks: ['rate==1'], latchkey_duplicates_prevented: ['count>0'], latchkey_turned_away: ['rate==0'] }),
  tags: { script: 'smoke' },
};

const kinds = Object.keys(config.tools);

export function setup() {
  return begin(kinds);
}

/** @param {import('./lib/lifecycle.js').Run} data */
export default function (data) {
  const step = `${__VU}-${__ITER}`;
  for (const kind of kinds) {
    rows[kind]?.(new Intention(data.run, kind, step));
  }
  const any = kinds.find((kind) => kind !== 'read');
  if (any) {
    refusals(new Intention(data.run, any, `${step}-bad`));
  }
}

/**
 * @param {boolean} kept
 * @param {string} what
 */
function must(kept, what) {
  if (!check(null, { [what]: () => kept })) {
    breaks('unexpected', what);
  }
}

/** A call that acts, its replay, and what a changed mind meets. @param {Intention} it */
function acts(it) {
  must(it.ask().receipt?.status === 'completed', `${it.kind}: the first call completes`);
  must(it.ask().receipt?.replayed === true, `${it.kind}: the same call again is replayed`);
  it.confirm();
  if (it.tool.reworded) {
    must(it.askChanged(it.tool.reworded, 422).problem?.code === 'idempotency_conflict', `${it.kind}: reworded is idempotency_conflict`);
  }
  if (it.tool.readdressed) {
    must(it.askChanged(it.tool.readdressed, 409).problem?.code === 'step_conflict', `${it.kind}: readdressed is step_conflict`);
  }
  must(it.ask().receipt?.replayed === true, `${it.kind}: and the result is still there`);
}

/** @type {Record<string, (it: Intention) => void>} */
const rows = {
  read(it) {
    must(it.ask().receipt?.key === null, 'read: answered without a receipt');
  },
  idempotent: acts,
  effectful: acts,
  deduped: acts,
  hot: acts,
  lossy(it) {
    // A lookup or a late answer may settle it meanwhile; then the result is replayed.
    for (let i = 0; i < 3; i++) {
      const answer = it.ask();
      must(answer.code === 202 || answer.receipt?.status === 'completed', 'lossy: pending, or found out meanwhile');
    }
  },
  declined(it) {
    must(it.ask().code === 424, 'declined: rejected, to be corrected');
  },
  irreversible(it) {
    must(it.ask().receipt?.status === 'awaiting_approval', 'irreversible: waits for a person');
    must(it.ask().receipt?.status === 'awaiting_approval', 'irreversible: and goes on waiting');
  },
};

/** Calls that are refused before anything is stored. @param {Intention} it */
function refusals(it) {
  const call = JSON.parse(it.body());
  /** @type {Array<[string, string, number, string]>} */
  const bad = [
    ['without run and step', JSON.stringify({ args: call.args }), 400, 'idempotency_key_required'],
    ['not JSON', '{"run_id":', 400, 'bad_request'],
    ['a member twice', `{"run_id":"a",${it.body().slice(1)}`, 400, 'bad_request'],
    ['an unknown member', JSON.stringify({ ...call, occurence: 1 }), 400, 'bad_request'],
    ['arguments that do not match', JSON.stringify({ ...call, args: [] }), 400, ''],
  ];
  for (const [what, body, code, problem] of bad) {
    const answer = read(http.post(it.url, body, it.params));
    must(answer.code === code && (problem === '' || answer.problem?.code === problem), `refused: ${what}`);
  }
  const nobody = params({ name: 'POST without a credential' });
  nobody.headers.Authorization = '';
  must(read(http.post(it.url, it.body(), nobody)).code === 401, 'refused: no credential');
  const nowhere = `${config.gateway}/v1/tools/there-is-no-such-tool/calls`;
  must(read(http.post(nowhere, it.body(), params({ name: 'POST unknown tool' }))).code === 404, 'refused: unknown tool');
}

/** @param {import('./lib/lifecycle.js').Run} data */
export function teardown(data) {
  end(data);
}

/** @param {any} data */
export function handleSummary(data) {
  return summarise('smoke', data);
}
