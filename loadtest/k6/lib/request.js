// How requests are made, and one text for every JSON value.
import http from 'k6/http';
import { config } from './config.js';

// What the contract answers is no failed request, whatever its status.
http.setResponseCallback(http.expectedStatuses({ min: 200, max: 299 }, 400, 401, 404, 409, 410, 422, 424, 503));

/** @param {Record<string, string>} tags */
export function params(tags) {
  return {
    headers: { Authorization: `Bearer ${config.key}`, 'Content-Type': 'application/json' },
    tags, timeout: config.timeout, redirects: 0, responseType: /** @type {const} */ ('text'),
  };
}

/**
 * One text for every JSON value, whatever the order of its members.
 * @param {any} value
 * @returns {string}
 */
export function canonical(value) {
  if (Array.isArray(value)) {
    return `[${value.map(canonical).join(',')}]`;
  }
  if (value !== null && typeof value === 'object') {
    return `{${Object.keys(value).sort().map((k) => `${JSON.stringify(k)}:${canonical(value[k])}`).join(',')}}`;
  }
  return JSON.stringify(value);
}
