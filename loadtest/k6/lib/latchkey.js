// A client of Latchkey for load tests: it makes calls, remembers what each intention was
// told, and counts every answer that breaks a promise. Scripts import this file alone.
export { count, config, duration, text } from './config.js';
export { read } from './contract.js';
export { Intention } from './intention.js';
export { begin, end } from './lifecycle.js';
export { breaks, thresholds } from './metrics.js';
export { params } from './request.js';
export { summarise } from './summary.js';
