// The tools that the scripts call: those of `latchkey dev`. TOOLS_FILE replaces them by
// those of another gateway, as JSON of the same shape; a kind that is left out is skipped.
//
// In args, {id} becomes a text that no other intention of any run has, and {shard} one of
// a hundred numbers, for things that should not become ever more.

/**
 * @typedef {object} Tool
 * @property {string} tool     its name at the gateway
 * @property {'read_only'|'idempotent'|'effectful'|'irreversible'} class
 * @property {Record<string, unknown>} args
 * @property {Record<string, unknown>} [reworded]     arguments that change the free text alone: 422
 * @property {Record<string, unknown>} [readdressed]  arguments that change who or what is meant: 409
 * @property {boolean} [ledger] its effects are in the ledger, under the receipt's key
 */

/** @type {Record<string, Tool>} */
export const dev = {
  read: { tool: 'search_contacts', class: 'read_only', args: { q: 'ada' } },
  idempotent: { tool: 'update_contact', class: 'idempotent', args: { id: 'k6-{shard}', status: 'active' } },
  effectful: {
    tool: 'send_invoice_email', class: 'effectful', ledger: true,
    args: { invoice_id: '{id}', to: 'ada@example.com', memo: 'Thank you' },
    reworded: { memo: 'Many thanks!' },
    readdressed: { to: 'bob@example.com' },
  },
  deduped: {
    tool: 'charge_card', class: 'effectful', ledger: true,
    args: { invoice_id: '{id}', card_number: '4111111111111111', amount: 4200, currency: 'EUR' },
    readdressed: { amount: 4300 },
  },
  hot: { tool: 'add_note', class: 'effectful', ledger: true, args: { id: 'c-1', text: '{id}' } },
  // The mailer sends it and then drops the connection: the outcome is unknown.
  lossy: {
    tool: 'send_invoice_email', class: 'effectful', ledger: true,
    args: { invoice_id: '{id}', to: 'ada@example.com', memo: '[lose the answer]' },
  },
  // The card is declined: rejected, to be corrected.
  declined: {
    tool: 'charge_card', class: 'effectful', ledger: true,
    args: { invoice_id: '{id}', card_number: '4000000000000002', amount: 4200, currency: 'EUR' },
  },
  irreversible: {
    tool: 'wire_transfer', class: 'irreversible', ledger: true,
    args: { payment_id: '{id}', to_account: 'DE02100100100006820101', amount: 9900, currency: 'EUR' },
  },
};
