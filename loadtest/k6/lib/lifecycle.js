// What every run does before and after: find the gateway and its tools, name the run, and
// in the end compare what callers were told with what really happened.
import http from 'k6/http';
import { config } from './config.js';
import { header, object } from './contract.js';
import * as m from './metrics.js';
import { canonical, params } from './request.js';

/**
 * @typedef {object} Run
 * @property {string} run
 * @property {boolean} ledger    the ledger can be read
 * @property {number} repeated   second effects that it knew before
 */

/**
 * For setup(): fails with a sentence where the run could not mean anything.
 * @param {string[]} kinds  kinds of tools that the script calls
 * @returns {Run}
 */
export function begin(kinds) {
  m.zero();
  const response = http.get(`${config.gateway}/v1/tools`, params({ name: 'GET tools' }));
  if (response.status === 0) {
    throw new Error(`no gateway answers at ${config.gateway} (${response.error}); start one with: latchkey dev. LATCHKEY_URL names another`);
  }
  if (response.status === 401 || response.status === 403) {
    throw new Error(`${config.gateway} answers ${response.status}: LATCHKEY_KEY must be a bearer key with the role agent`);
  }
  /** @type {Array<{name: string, class: string}>|undefined} */
  const catalogue = object(response.body)?.tools;
  if (response.status !== 200 || !Array.isArray(catalogue)) {
    throw new Error(`GET ${config.gateway}/v1/tools answers ${response.status} and no list of tools; is this Latchkey?`);
  }
  for (const kind of kinds) {
    const wanted = config.tools[kind];
    if (!wanted) {
      continue;
    }
    const found = catalogue.find((tool) => tool.name === wanted.tool);
    if (!found || found.class !== wanted.class) {
      throw new Error(`the gateway's tool ${wanted.tool} is ${found ? found.class : 'not there'}, the ${kind} one must be ${wanted.class}; ` +
        'TOOLS_FILE says which tools to call');
    }
  }
  if (!kinds.some((kind) => kind in config.tools)) {
    throw new Error(`TOOLS_FILE has none of the kinds that this script calls: ${kinds.join(', ')}`);
  }
  const ledger = readLedger(0);
  if (config.ledger === '') {
    console.warn('no LEDGER_URL: second effects downstream are not looked for');
  } else if (ledger === null) {
    throw new Error(`no ledger answers at ${config.ledger}; LEDGER_URL names another`);
  }
  return {
    run: config.run || `k6-${Date.now().toString(36)}-${Math.floor(Math.random() * 2 ** 30).toString(36)}`,
    ledger: ledger !== null,
    repeated: ledger?.totals.repeated ?? 0,
  };
}

/** @typedef {{service: string, key: string, count: number, record: unknown}} Effect */
/** @typedef {{totals: {effects: number, repeated: number}, matched: number, effects: Effect[]}} Ledger */

/** @param {number} limit @returns {Ledger|null} */
function readLedger(limit) {
  if (config.ledger === '') {
    return null;
  }
  const response = http.get(`${config.ledger}?limit=${limit}`,
    { tags: { name: 'GET ledger' }, timeout: config.timeout, responseType: /** @type {const} */ ('text') });
  const body = object(response.body);
  return response.status === 200 && body !== null && Array.isArray(body.effects) ? /** @type {Ledger} */ (body) : null;
}

/**
 * For teardown(): the ledger is the truth about effects, the receipts are what callers
 * were promised; neither may have more than the other.
 * @param {Run} run
 */
export function end(run) {
  if (!run.ledger) {
    return;
  }
  const receipts = listReceipts(run.run); // first: what is settled by now is in the ledger
  const ledger = readLedger(1_000_000);
  if (ledger === null) {
    throw new Error(`the ledger at ${config.ledger} could be read before the run and not after it`);
  }
  m.ledgerReads.add(1);
  /** @type {Map<string, Effect[]>} */
  const byKey = new Map();
  for (const effect of ledger.effects) {
    if (effect.key !== '') {
      byKey.set(effect.key, [...(byKey.get(effect.key) ?? []), effect]);
    }
    if (JSON.stringify(effect).includes(`${run.run}-`)) {
      m.effectsSeen.add(1, { service: effect.service });
    }
  }
  // The totals also know effects that are no longer listed.
  let doubles = ledger.totals.repeated - run.repeated;
  for (const [key, effects] of byKey) {
    const mine = effects.some((effect) => JSON.stringify(effect).includes(`${run.run}-`));
    if (mine && effects.length > 1) {
      doubles = Math.max(doubles, 1);
      console.error(`${effects.length} effects under key ${key}`);
    }
  }
  for (let i = 0; i < doubles; i++) {
    m.breaks('double_effect', 'see GET /ledger');
  }
  const complete = ledger.effects.length === ledger.totals.effects;
  const compared = Object.values(config.tools).filter((tool) => tool.ledger).map((tool) => tool.tool);
  for (const receipt of receipts) {
    if (compared.includes(receipt.tool)) {
      m.receiptsChecked.add(1);
      compareWithLedger(receipt, byKey.get(receipt.key) ?? [], complete);
    }
  }
}

/**
 * @param {Record<string, any>} receipt
 * @param {Effect[]} effects
 * @param {boolean} complete  the ledger still lists all its effects
 */
function compareWithLedger(receipt, effects, complete) {
  const n = effects.length;
  switch (receipt.status) {
    case 'completed':
      if (n === 0 && complete) {
        m.breaks('ledger_disagrees', 'completed, and there is no effect');
      } else if (n === 1 && receipt.outcome?.body !== undefined && canonical(receipt.outcome.body) !== canonical(effects[0]?.record)) {
        m.breaks('ledger_disagrees', 'the result is not what the downstream answered');
      }
      break;
    case 'rejected':
    case 'awaiting_approval':
      if (n > 0) {
        m.breaks('ledger_disagrees', `${receipt.status}, and there is an effect`);
      }
  }
}

/** The newest receipts of a run. @param {string} run @returns {Array<Record<string, any>>} */
function listReceipts(run) {
  const receipts = [];
  let cursor = '';
  while (receipts.length < config.receipts) {
    const limit = Math.min(200, config.receipts - receipts.length);
    const after = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
    const response = http.get(`${config.gateway}/v1/receipts?run_id=${encodeURIComponent(run)}&limit=${limit}${after}`, params({ name: 'GET receipts' }));
    const page = object(response.body);
    if (response.status !== 200 || page === null || !Array.isArray(page.receipts) || header(response, 'Content-Type') === '') {
      m.breaks('unexpected', `the list of receipts: ${response.status}`);
      break;
    }
    receipts.push(...page.receipts);
    cursor = page.next_cursor;
    if (cursor === '') {
      break;
    }
  }
  return receipts;
}
