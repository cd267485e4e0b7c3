// What a run can be told: k6 run -e NAME=value SCRIPT. README.md lists every name.
import { dev } from './tools.js';

/** @typedef {import('./tools.js').Tool} Tool */

const devURL = 'http://127.0.0.1:8080';

/**
 * @param {string} name
 * @param {string} otherwise
 */
export function text(name, otherwise) {
  const value = __ENV[name];
  return value === undefined || value === '' ? otherwise : value;
}

/**
 * A whole number of at least min.
 * @param {string} name
 * @param {number} otherwise
 * @param {number} [min]
 */
export function count(name, otherwise, min = 1) {
  const given = text(name, String(otherwise));
  if (!/^\d{1,9}$/.test(given) || Number(given) < min) {
    throw new Error(`${name}=${given}: it must be a whole number of at least ${min}`);
  }
  return Number(given);
}

/**
 * A duration as k6 writes it.
 * @param {string} name
 * @param {string} otherwise
 */
export function duration(name, otherwise) {
  const given = text(name, otherwise);
  if (!/^(\d+(\.\d+)?(ms|s|m|h))+$/.test(given)) {
    throw new Error(`${name}=${given}: it must be a duration such as 30s or 1m30s`);
  }
  return given;
}

/**
 * @param {string} name
 * @param {string} otherwise
 */
function url(name, otherwise) {
  const given = text(name, otherwise).replace(/\/+$/, '');
  if (!/^https?:\/\/[^\s/]+/.test(given)) {
    throw new Error(`${name}=${given}: it must be the address of a server, such as ${devURL}`);
  }
  return given;
}

/** @returns {Record<string, Tool>} */
function tools() {
  const path = text('TOOLS_FILE', '');
  if (path === '') {
    return dev;
  }
  // k6 versions differ in what a relative path is relative to.
  if (!/^(\/|[A-Za-z]:[\\/]|file:\/\/)/.test(path)) {
    throw new Error(`TOOLS_FILE=${path}: it must be an absolute path, such as $PWD/my-tools.json`);
  }
  const read = JSON.parse(open(path));
  for (const [kind, tool] of Object.entries(read)) {
    if (!(kind in dev)) {
      throw new Error(`${path}: ${kind} is not one of ${Object.keys(dev).join(', ')}`);
    }
    if (typeof tool?.tool !== 'string' || typeof tool.class !== 'string' || typeof tool.args !== 'object') {
      throw new Error(`${path}: ${kind} must have tool, class and args`);
    }
  }
  return read;
}

const gateway = url('LATCHKEY_URL', devURL);
const own = gateway !== devURL || text('TOOLS_FILE', '') !== '';

export const config = Object.freeze({
  gateway,
  /** The agent's bearer key. */
  key: text('LATCHKEY_KEY', 'dev-agent'),
  tools: tools(),
  /** Address of a ledger like that of `latchkey dev`; '' where there is none. */
  ledger: own && text('LEDGER_URL', '') === '' ? '' : url('LEDGER_URL', 'http://127.0.0.1:9100/ledger'),
  /** Names the run in every receipt; '' makes one up. */
  run: text('RUN_ID', ''),
  /** How long the client waits before it hangs up. */
  timeout: duration('CLIENT_TIMEOUT', '60s'),
  /** How many receipts the end of a run compares with the ledger. */
  receipts: count('RECEIPTS_CHECKED', 2000, 0),
  /** Where the summary goes; the script's name and .txt, .json are added. */
  summary: text('SUMMARY_PREFIX', 'latchkey-'),
});
