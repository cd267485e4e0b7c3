// The end-of-run summary: a text for people on standard output and in a file, and JSON.
import { config } from './config.js';
import { promiseTexts } from './metrics.js';

/**
 * The parts of k6's summary data that are read here.
 * @typedef {{type: string, values: Record<string, number>, thresholds?: Record<string, {ok: boolean}>}} Metric
 * @typedef {{metrics: Record<string, Metric>, state?: {testRunDurationMs?: number}}} Data
 */

/**
 * For handleSummary().
 * @param {string} script
 * @param {Data} data
 * @returns {Record<string, string>}
 */
export function summarise(script, data) {
  const report = reportOf(script, data);
  const text = textOf(report);
  const file = `${config.summary}${script}`;
  return { stdout: text, [`${file}.txt`]: text, [`${file}.json`]: `${JSON.stringify(report, null, 2)}\n` };
}

/** @param {Data} data @param {string} name @param {string} value */
function value(data, name, value) {
  return data.metrics[name]?.values?.[value] ?? 0;
}

/** @param {string} script @param {Data} data */
function reportOf(script, data) {
  /** @type {Array<{metric: string, threshold: string, ok: boolean}>} */
  const crossed = [];
  let held = 0;
  for (const [metric, { thresholds }] of Object.entries(data.metrics)) {
    for (const [threshold, { ok }] of Object.entries(thresholds ?? {})) {
      if (ok) {
        held++;
      } else {
        crossed.push({ metric, threshold, ok });
      }
    }
  }
  /** @type {Record<string, number>} */
  const counts = {};
  for (const name of ['calls', 'first_times', 'replays', 'duplicates_prevented', 'conflicts', 'started', 'unknown', 'awaiting_approval',
    'rejected', 'not_sent', 'no_answer', 'effects_seen', 'receipts_checked']) {
    counts[name] = value(data, `latchkey_${name}`, 'count');
  }
  return {
    script,
    gateway: config.gateway,
    passed: crossed.length === 0,
    seconds: Math.round((data.state?.testRunDurationMs ?? 0) / 100) / 10,
    ledger_read: value(data, 'latchkey_ledger_reads', 'count') > 0,
    counts,
    answer_time_ms: times(data),
    promises: promiseTexts.map(([metric, said]) => ({ metric, said, broken: value(data, metric, 'count') })),
    thresholds: { held, crossed },
    dropped_iterations: value(data, 'dropped_iterations', 'count'),
  };
}

/** Answer times of all calls and of each way that a threshold asks for. @param {Data} data */
function times(data) {
  /** @type {Record<string, Record<string, number>>} */
  const found = {};
  for (const [name, { values }] of Object.entries(data.metrics)) {
    if (name.startsWith('latchkey_answer_time')) {
      const how = /\{how:(\w+)\}/.exec(name)?.[1] ?? 'all';
      found[how] = { med: values.med ?? 0, 'p(95)': values['p(95)'] ?? 0, max: values.max ?? 0 };
    }
  }
  return found;
}

/** @param {ReturnType<typeof reportOf>} report */
function textOf(report) {
  const c = report.counts;
  const lines = [
    '',
    `latchkey ${report.script}: ${report.passed ? 'passed' : 'FAILED'} after ${report.seconds} s against ${report.gateway}`,
    '',
    `  calls                 ${c.calls}, of which ${c.first_times} acted and answered, ${c.replays} replayed, ${c.conflicts} conflicts`,
    `  duplicates prevented  ${c.duplicates_prevented}`,
    `  pending               ${c.unknown} unknown, ${c.started} started, ${c.awaiting_approval} awaiting approval`,
    `  refused               ${c.rejected} rejected, ${c.not_sent} not sent, ${c.no_answer} without any answer`,
    report.ledger_read
      ? `  ledger                ${c.effects_seen} effects of this run, ${c.receipts_checked} receipts checked`
      : '  ledger                NOT READ: second effects downstream were not looked for',
    '',
    '  answer time, ms       median    p(95)      max',
  ];
  for (const [how, t] of Object.entries(report.answer_time_ms)) {
    lines.push(`    ${how.padEnd(16)} ${cell(t.med)} ${cell(t['p(95)'])} ${cell(t.max)}`);
  }
  lines.push('', '  promises');
  for (const { said, broken } of report.promises) {
    lines.push(`    ${broken === 0 ? 'kept  ' : `BROKEN ${broken}x`}  ${said}`);
  }
  if (report.dropped_iterations > 0) {
    lines.push('', `  ${report.dropped_iterations} iterations were dropped for want of VUs: the offered rate was not reached, answer times flatter`);
  }
  lines.push('', `  thresholds            ${report.thresholds.held} held, ${report.thresholds.crossed.length} crossed`);
  for (const { metric, threshold } of report.thresholds.crossed) {
    lines.push(`    CROSSED  ${metric}: ${threshold}`);
  }
  return `${lines.join('\n')}\n\n`;
}

/** @param {number|undefined} ms */
const cell = (ms) => (ms ?? 0).toFixed(1).padStart(8);
