// Package intent says what an intent is. Start reading here; gateway/once is next.
//
// Latchkey stands between agents and the tools they call. An agent's call is lost, so it
// calls again, perhaps reworded, perhaps through another replica. The promise:
//
//	One approved intention produces at most one consequential action.
//	A result that was reported is never lost.
//
// This package is pure: no clock, no network, no storage. The rest of the repository uses
// its words letter for letter.
//
// # Words
//
//   - tenant: whose agents these are; from the credential, never from the request body.
//   - run, step: the agent run and the step in it, given by the host program, never by the
//     model.
//   - occurrence: 0, unless the host says that the same tool is meant to act again in the
//     same step.
//   - slot: hash of tenant, run, step, occurrence and tool: "this step's use of this tool".
//   - key (Key): hash of the slot and the identity arguments; names one intention.
//   - guard (Guard): what a claim is held on: the slot, or the key where the tool does not
//     guard its step.
//   - fingerprint (Fingerprint): hash of all arguments less the volatile ones; tells a
//     changed mind from a retry.
//   - claim: the exclusive right to act on a key: claim id (ClaimID), fence (1, 2, 3 ...),
//     lease.
//   - attempt (Attempt): one arrival of a call for a key, first or duplicate.
//   - execution (Execution): one downstream request made for a key; a second one needs a
//     reason that makes it safe.
//   - receipt (Receipt): the record a caller can hold on to.
//   - settle: to move a key out of started or unknown with evidence (Settlement).
//   - lookup: asking the downstream whether the action happened.
//   - recovery (Recovery): how an unknown key will be found out about, or why only a person
//     can go on (parked); how long an approval is waited for.
//   - entry (Entry): one line of a receipt's audit: who changed or checked what, when, why.
//
// # The way of a call
//
//	request ─▶ key ─▶ claim ─▶ write-ahead ─▶ execute ─▶ settle ─▶ receipt
//	           here   lock     intentstore    downstream intentstore, lock
//
// Data flows one way. Redis (lock) makes duplicates meet quickly; the row written ahead of
// the effect (intentstore) is the arbiter; package gateway/once is the order.
//
// # Statuses and moves
//
//	                      approve                     evidence
//	awaiting_approval ───────────────▶ started ─────────────────────▶ completed
//	       │ decline / expire            │  ▲ again, re-execute
//	       ▼                             │  │
//	    rejected ◀───── not accepted ────┤  │
//	       ▲                             ▼  │
//	       └────────── evidence ────── unknown ── evidence ─▶ completed
//
// Moves is this picture as a table. Every move is a named constructor and is applied only
// if status and fence are still what it was made for; otherwise it is ErrStale, an answer
// and not a failure. SQL CHECK constraints and the Lua scripts repeat the table, and tests
// compare them with it.
//
// # Invariants
//
//  1. No request is written before a row says started with this claim's id, acknowledged
//     (a hot tool: before the claim in Redis does).
//  2. Per key, executions follow each other; the next begins only after the last is known
//     not to have happened (rejected), or by a move that says why it is safe.
//  3. A lease never frees a key. When it runs out, started becomes unknown; so safety does
//     not rest on clocks.
//  4. Completed is final, and every caller gets the same result.
//  5. A pair (fence, status) only moves forward, in the store and in Redis.
//  6. What people and the reconciler decide is one conditional change of the row, with its
//     entry in the audit; of two that collide, one is refused and told so.
//  7. An unknown key is always somebody's: it has a next check, or it is parked for a person.
//
// # Crash table
//
//	dies after      what the world sees             who repairs
//	claim           a claim without a row           its lease runs out; the next caller or the
//	                                                sweeper finds no row: nothing was sent,
//	                                                released (a hot claim becomes unknown)
//	write-ahead,    a started row                   sweeper: unknown; then a lookup, a safe
//	execute                                         retry, a late answer or a person
//	settle, store   row settled, Redis started      next reader or sweeper copies the row
//	settle, Redis   everything is there             nobody
//	a check taken   an unknown row, due later       any reconciler, once it is due again
//	lookup          an unknown row, due later       any reconciler asks again
//	approve,        a started row                   as after a write-ahead: unknown, and then
//	re-execute                                      what the tool's policy says
//	a decision      row settled, Redis unknown      next reader copies the row
//	Redis flushed   rows only                       the write-ahead finds the row, Redis is
//	                                                refilled
//	store down      write-ahead: nothing is sent, 503. After the effect: the result is kept in
//	                Redis without expiry and in memory until it is stored; the caller gets it,
//	                marked durable: false
//
// # What the promise rests on
//
//  1. StoreKeepsCommits: a commit that the store acknowledged survives (fsync on; with
//     failover, a synchronous standby).
//  2. HostNamesSteps: run and step come from the host program and are the same when it
//     retries. A host that makes up a new step for a retry asks for a second action.
//  3. IdentityIsRight: the tool's identity arguments say what is meant.
//  4. DownstreamMeansItsStatus: a 4xx was not acted on, a 2xx was. Where a provider differs,
//     statuses says so.
//  5. PausedProcessWindow: a process paused between its last look at its lease and the first
//     byte of the request can send late. This does harm only if the key was re-executed
//     meanwhile, on a downstream that neither dedupes nor can be asked.
//  6. OnlyDoor: agents reach the downstream through Latchkey alone.
//  7. WithinRetention: a call repeated after the tombstone's life acts again; so does one of
//     a hot tool after the hot window, or after Redis has lost its memory.
package intent
