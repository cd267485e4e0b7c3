// An intention: the calls for it, and what they must agree on.
import http from 'k6/http';
import { config } from './config.js';
import { object, read } from './contract.js';
import { canonical, params } from './request.js';
import * as m from './metrics.js';

/** @typedef {import('./contract.js').Answer} Answer */

/** One thing that an agent means to do, and what this VU was told about it. */
export class Intention {
  /**
   * @param {string} run   what begin() returned
   * @param {string} kind  a kind of tool
   * @param {number|string} step  no other intention of the run and tool has it
   */
  constructor(run, kind, step) {
    const tool = config.tools[kind];
    if (!tool) {
      throw new Error(`there is no tool of kind ${kind}`);
    }
    this.tool = tool;
    this.kind = kind;
    this.run = run;
    this.step = `${kind}-${step}`;
    this.id = `${run}-${this.step}`;
    this.shard = String(typeof step === 'number' ? step % 100 : 0);
    this.asked = 0;
    this.firstTimes = 0;
    /** @type {string|null} */
    this.key = null;
    /** @type {string|null} the completed outcome */
    this.result = null;
  }

  /** @param {Record<string, unknown>} [change] @returns {Record<string, unknown>} */
  args(change) {
    const filled = JSON.stringify({ ...this.tool.args, ...change })
      .replaceAll('{id}', this.id).replaceAll('{shard}', this.shard);
    return JSON.parse(filled);
  }

  /** @param {{args?: Record<string, unknown>, occurrence?: number}} [change] */
  body(change) {
    return JSON.stringify({ run_id: this.run, step_id: this.step, occurrence: change?.occurrence ?? 0, args: this.args(change?.args) });
  }

  get url() {
    return `${config.gateway}/v1/tools/${this.tool.tool}/calls`;
  }

  get params() {
    return params({ name: `POST ${this.tool.tool}`, kind: this.kind });
  }

  /** Asks once, as every repeat does. @returns {Answer} */
  ask() {
    const repeat = this.asked++ > 0;
    return this.hear(read(http.post(this.url, this.body(), this.params)), repeat);
  }

  /**
   * Asks n times at once.
   * @param {number} n
   * @returns {Answer[]}
   */
  askAtOnce(n) {
    const repeat = this.asked > 0;
    this.asked += n;
    const requests = Array.from({ length: n }, () => ({ method: 'POST', url: this.url, body: this.body(), params: this.params }));
    return http.batch(requests).map((response) => this.hear(read(response), repeat));
  }

  /**
   * Asks for something that a confused agent would: the gateway must refuse, name this
   * intention's receipt and show nothing of it.
   * @param {Record<string, unknown>} args
   * @param {number} code
   * @returns {Answer}
   */
  askChanged(args, code) {
    const answer = read(http.post(this.url, this.body({ args }), this.params));
    tally(answer, this.kind, true);
    if (answer.code === 0 || answer.code === 503) {
      return answer;
    }
    if (answer.code !== code || !answer.problem || (this.key !== null && answer.problem.earlier_key !== this.key)) {
      m.breaks('conflict', `a changed call was answered ${answer.code}, not ${code} with the earlier key`);
    }
    return answer;
  }

  /**
   * Reads the receipt and compares it with what was heard: what another VU heard too must
   * agree with it, though VUs share nothing.
   */
  confirm() {
    if (this.key === null) {
      return;
    }
    const response = http.get(`${config.gateway}/v1/receipts/${this.key}`, params({ name: 'GET receipt', kind: this.kind }));
    if (response.status === 0 || response.status === 503) {
      return;
    }
    const receipt = object(response.body);
    if (response.status !== 200 || receipt === null || receipt.key !== this.key) {
      m.breaks('unexpected', `GET of a receipt: ${response.status}`);
      return;
    }
    m.receiptsChecked.add(1);
    this.compare(receipt.status, receipt.outcome, false);
  }

  /**
   * @param {Answer} answer
   * @param {boolean} repeat  this VU had asked before
   * @returns {Answer}
   */
  hear(answer, repeat) {
    tally(answer, this.kind, repeat);
    const r = answer.receipt;
    if (!r || r.key === null) {
      return answer;
    }
    if (this.key !== null && r.key !== this.key) {
      m.breaks('key_moved', `step ${this.step}`);
    }
    this.key ??= r.key;
    if (r.status === 'completed' && !r.replayed && ++this.firstTimes > 1) {
      m.breaks('two_first_times', `step ${this.step}`);
    }
    this.compare(r.status, r.outcome, r.replayed);
    return answer;
  }

  /**
   * @param {string} status
   * @param {unknown} outcome
   * @param {boolean} replayed
   */
  compare(status, outcome, replayed) {
    if (status !== 'completed') {
      if (this.result !== null) {
        m.breaks('settled_changed', `step ${this.step} is ${status}`);
      }
      return;
    }
    const result = canonical(outcome ?? null);
    this.result ??= result;
    if (result !== this.result) {
      m.breaks('two_results', `step ${this.step}`);
      if (replayed) {
        m.breaks('replay_differs', `step ${this.step}`);
      }
    }
  }
}

/**
 * Counts an answer.
 * @param {Answer} answer
 * @param {string} kind
 * @param {boolean} repeat
 */
function tally(answer, kind, repeat) {
  const tags = { kind };
  const { receipt, problem } = answer;
  m.calls.add(1, tags);
  const away = answer.code === 0 || answer.code === 503;
  m.turnedAway.add(away, tags);
  if (answer.code === 0) {
    m.noAnswer.add(1, tags);
    return;
  }
  let how = 'refused';
  if (receipt?.key === null) {
    how = 'read';
  } else if (receipt?.status === 'completed') {
    how = receipt.replayed ? 'replay' : 'first';
    (receipt.replayed ? m.replays : m.firstTimes).add(1, tags);
  } else if (answer.code === 202) {
    how = 'pending';
    const counter = { unknown: m.unknown, started: m.started, awaiting_approval: m.awaitingApproval }[receipt?.status ?? ''];
    counter?.add(1, tags);
  } else if (receipt?.status === 'rejected') {
    m.rejected.add(1, tags);
  } else if (problem && [409, 410, 422].includes(answer.code)) {
    how = 'conflict';
    m.conflicts.add(1, { ...tags, code: problem.code });
  }
  if (answer.code === 503) {
    m.notSent.add(1, tags);
  }
  m.answerTime.add(answer.ms, { ...tags, how });
  // Without the gateway, each of these would have been a second request downstream.
  if (how === 'replay' || how === 'conflict' || (how === 'pending' && repeat)) {
    m.duplicatesPrevented.add(1, { ...tags, how });
  }
}
