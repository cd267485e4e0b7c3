package once

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/lock"
	"github.com/latchkey-gateway/latchkey/tracing"
)

// Effects makes one attempt at an effect; *downstream.Client is the one that does.
type Effects interface {
	// Admit takes a concurrency permit and asks the breaker. done MUST be called once when
	// the attempt has ended or was not made.
	Admit(t *downstream.Tool) (done func(downstream.Observed, downstream.Verdict), refused *downstream.Refusal)
	// Execute sends the request at most once, within the tool's own timeout.
	Execute(ctx context.Context, c downstream.Call) downstream.Observed
	// Forward sends a read-only request, with bounded retries.
	Forward(ctx context.Context, c downstream.Call) downstream.Observed
	// Lookup asks whether a call's effect happened. It may be repeated.
	Lookup(ctx context.Context, c downstream.Call) downstream.Finding
}

// Options wire an Engine. All fields are required but NearCache, Seal, Notify, Telemetry,
// StoreSystem and Log.
type Options struct {
	Lock        lock.Store
	Store       intentstore.Store
	Desk        intentstore.Desk
	Journal     intentstore.Journal
	Effects     Effects
	Tools       func(name string) (*downstream.Tool, bool) // as configured now
	Seal        *Seal                                      // nil: arguments that are redacted are not kept at all
	Notify      bool                                       // people are told of what waits for them
	Lease       time.Duration                              // how long a claim lasts without renewal
	HotTTL      time.Duration                              // how long Redis keeps a durable settled record
	NearCache   int64                                      // bytes of completed receipts kept in this replica
	MaxInFlight int                                        // distinct calls that may be under way; duplicates do not count
	Replica     string
	Region      string
	Telemetry   *tracing.Telemetry // nil: calls carry their context on, and nothing is noted
	StoreSystem string             // the store's name in traces, a System constant
	Log         *slog.Logger
}

// Engine runs calls. It owns the goroutines that renew leases, store what could not be
// stored yet, and write the attempts journal.
type Engine struct {
	Options
	clock
	near     nearCache
	flights  flights
	holders  holders
	unstored unstored
	journal  journal
	redis    health

	work     sync.WaitGroup // calls under way
	tend     sync.WaitGroup // renewing leases, storing what is unstored: needed while calls are under way
	write    sync.WaitGroup // the journal: ends last
	draining chan struct{}  // closed: nobody waits for anybody else any more
	closing  chan struct{}  // closed: no call is under way any more
	drain    sync.Once
	stop     sync.Once
}

// New starts an engine. Close ends it.
func New(o Options) *Engine {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{Options: o.traced(), clock: clock{time.Now()}, draining: make(chan struct{}), closing: make(chan struct{})}
	e.redis.clock = e.clock
	e.near.init(o.NearCache)
	e.flights.init(o.MaxInFlight)
	e.holders.init()
	e.unstored.init()
	e.journal.init(o.Journal, o.Log)
	e.tend.Go(e.renewLeases)
	e.tend.Go(e.storeUnstored)
	e.write.Go(e.journal.run)
	return e
}

// Close finishes: calls that only wait for somebody else's execution are answered with
// what is known, effects under way are settled, what is left is stored, and the journal is
// written, all within ctx. What it could not finish is what a crash would leave. The
// caller must have stopped calling Do.
func (e *Engine) Close(ctx context.Context) error {
	e.drain.Do(func() { close(e.draining) })
	if err := within(ctx, &e.work); err != nil {
		return err
	}
	e.stop.Do(func() { close(e.closing) })
	if err := within(ctx, &e.tend); err != nil {
		return err
	}
	e.journal.close()
	return within(ctx, &e.write)
}

// within waits for the group, or for ctx.
func within(ctx context.Context, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Request is one arrival of a call, parsed but not yet validated.
type Request struct {
	Tool        *downstream.Tool
	intent.Call               // with the tenant of the credential
	Credential  string        // id of the API key
	Wait        time.Duration // how long the caller waits for an answer
	Patient     bool          // it asked for that wait, and waits for a person's approval too
	Span        tracing.Span  // this arrival's span
}

// provisional is the receipt of a call that has not reached its claim yet, and the row
// that it would write ahead.
func (e *Engine) provisional(id intent.Identity, r Request) intent.Receipt {
	now := intent.Micros(time.Now())
	return intent.Receipt{
		Template: r.Tool.Template(), Sealed: e.seal(r.Tool, id),
		Key: id.Key, Guard: id.Guard, Fingerprint: id.Fingerprint,
		Tenant: r.Tenant, Tool: r.Tool.Name, Class: r.Tool.Class, Durability: r.Tool.Durability,
		RunID: r.RunID, StepID: r.StepID, Occurrence: r.Occurrence,
		Args:   r.Tool.Rules.Redacted(id.Args).AppendJSON(nil),
		Status: intent.Started, Retry: intent.RetrySameKey,
		Fence: 1, Version: 1, Attempts: 1, Executions: 1,
		CreatedAt: now, StartedAt: now, SettleBy: now.Add(r.Tool.Timeout + e.Lease),
		Traceparent: r.Span.Reserve().Traceparent(), Replica: e.Replica, Region: e.Region,
	}
}

// Do answers one arrival of a call: DESIGN §4 from top to bottom. A caller that goes away
// stops the waiting, never the work.
func (e *Engine) Do(ctx context.Context, r Request) Answer {
	// 1. Key. Nothing is stored yet.
	id := r.Tool.Rules.Derive(r.Call)

	// 2. Near cache: completed is final, so a replay needs no network.
	a, known := e.near.answer(id)
	if !known {
		// What was accepted before need not be checked again; all else is, before it is stored.
		if err := r.Tool.Validate(id.Args); err != nil {
			return Answer{Decision: intent.Refused, Err: err}
		}
		// 3. Local collapse: one leader per key and fingerprint; the others wait on it.
		f, arrival := e.flights.join(id, r, e.provisional(id, r))
		leads := arrival == 1
		if f == nil {
			a = notSent("overloaded", "The gateway has as many calls in flight as it may.", time.Second)
			a.Err.Category = intent.Overloaded
		} else {
			if leads {
				detached := tracing.With(context.WithoutCancel(ctx), r.Span)
				e.work.Go(func() {
					defer e.survive(f)
					e.flights.finish(f, e.lead(detached, f))
				})
			}
			asked := time.Now()
			a = e.wait(ctx, f, leads, r.Wait)
			a.Arrival = max(a.Arrival, arrival)
			if r.Patient && a.Err == nil && a.Receipt.Status == intent.AwaitingApproval {
				a = e.waitApproved(ctx, a, r.Wait-time.Since(asked))
			}
		}
	}

	// 10. Journal: off the hot path; losing a row costs a line in a list.
	e.journal.add(r, id.Key, a, e.Replica, e.Region)
	return a
}

// survive keeps a bug in one call from ending all calls under way. For its key, nothing
// more happens here: what is durable is what a crash would have left.
func (e *Engine) survive(f *flight) {
	if failure := recover(); failure != nil {
		e.Log.Error("panic", "key", f.id.Key.Short(), "tool", f.req.Tool.Name, "failure", failure, "stack", string(debug.Stack()))
		e.flights.finish(f, Answer{Decision: intent.Pending, Err: intent.Errorf(intent.Internal, nil, "The gateway failed on this call.")})
	}
}

// lead takes one key from the claim to an answer, on behalf of everyone who waits for it.
func (e *Engine) lead(ctx context.Context, f *flight) Answer {
	joined := false // whether we waited for somebody else's execution
	for turn := 0; ; turn++ {
		if turn > 1 { // the key is fought over: leave it to the others for a moment
			sleep(pollFirst*time.Duration(min(turn, 20)), e.draining)
		}
		// 4. Claim. One Redis round trip; without Redis, a read of the row.
		// Dies here: a claim without a row. Nothing was sent; its lease runs out and the
		// next caller or the sweeper releases it (Repair). A hot claim becomes unknown.
		h := e.newHolder(f)
		found := e.claim(ctx, f, h)
		if found.code == lock.Claimed {
			a, instead := e.act(ctx, f, h)
			if instead == nil {
				return a
			}
			found = *instead // the row was there already: a duplicate after all
		}
		if found.code == lock.Held {
			joined = true
			found = e.await(ctx, f, found)
		}
		if found.code == free {
			continue // released, or forgotten by Redis: the claim decides again
		}
		a := f.meet(found, joined)
		a.Arrival = 2 // whose record this is came before
		return a
	}
}

// act is the part that can have an effect: only the holder of a claim gets here, and only
// the owner of a row gets past the write-ahead. It returns what it found instead when
// another execution of the key is on record.
func (e *Engine) act(ctx context.Context, f *flight, h *holder) (Answer, *standing) {
	defer e.holders.drop(h)
	t := f.req.Tool
	row := f.provisional
	row.ClaimID, row.Fence = h.ask.ClaimID, max(1, h.fence.Load())

	if t.Approval != nil {
		return e.hold(ctx, f, h, row)
	}

	// 5. Admission, after the claim: a completed key replays while the breaker is open.
	// Refused: the claim is released and no row is left.
	done, refused := e.Effects.Admit(t)
	if refused != nil {
		e.release(ctx, h)
		return notSent(refused.NotSentWhy, "The downstream of "+t.Name+" takes no calls at the moment.", refused.RetryAfter), nil
	}
	unsent := func(why string) {
		done(downstream.Observed{NotSentWhy: why}, downstream.Verdict{Status: intent.Rejected, Retry: intent.RetrySameKey, Unsent: true})
	}

	// 6. Write ahead. This row is the arbiter. A hot tool has none: its claim in Redis is all.
	// Dies here: a started row. The sweeper finds it lost and makes it unknown.
	if t.Durability == intent.Durable {
		begun, err := e.Store.Begin(ctx, row)
		if err != nil {
			unsent("store")
			if errors.Is(err, intentstore.ErrAmbiguous) {
				e.abandon(row)
			}
			e.release(ctx, h)
			e.Log.Warn("write-ahead failed", "step", "begin", "key", row.Key.Short(), "error", err)
			return notSent("store_unavailable", "The gateway cannot write to its store at the moment.", time.Second), nil
		}
		if !begun.Mine {
			unsent("duplicate")
			e.adopt(ctx, h, begun.Row)
			return Answer{}, new(e.standingRow(f.id, begun.Row))
		}
		row = begun.Row
	}
	h.begun(row.Fence)
	f.stands(new(row)) // a copy: row goes on to change

	row = e.perform(ctx, t, row, f.id.Args, h, done, e.firstMove)
	a := Answer{Receipt: row, Decision: intent.Executed, RetryAfter: row.RetryAfter}
	if row.Status == intent.Rejected && row.Retry == intent.RetrySameKey {
		a.Decision = intent.Refused // provably not sent, or not accepted for now
	}
	return a, nil
}

// perform is steps 7 to 9, for whoever has written ahead: a call, an approval, a safe
// retry. meaning turns the verdict into the move that it allows.
func (e *Engine) perform(ctx context.Context, t *downstream.Tool, row intent.Receipt, args intent.Value, h *holder,
	done func(downstream.Observed, downstream.Verdict), meaning meaning) intent.Receipt {
	// 7. Execute, once. MayBegin is the last look at our own lease before the first byte.
	// Dies here or before 9: the effect may have happened and the row says started. The
	// sweeper makes it unknown; a lookup, a late answer or a person settles it.
	x := tracing.From(ctx).Execute(row.Traceparent, row.Fence, t.Method, t.Host())
	seen := e.Effects.Execute(ctx, downstream.Call{
		Tool: t, Args: args, Key: row.Key, RunID: row.RunID, StepID: row.StepID,
		Traceparent: row.Traceparent, Tracestate: x.Tracestate(), Baggage: x.Baggage(), MayBegin: h.mayBegin,
	})

	// 8. Classify: a pure function of what was seen.
	verdict := downstream.Classify(t, seen)
	done(seen, verdict)
	e.executed(x, t, seen, verdict)

	// 9. Settle: store, then Redis and whoever waits there, then near cache, then answer.
	return e.settle(ctx, row, meaning(t, &row, verdict, time.Now()))
}

// hold writes the intent ahead of a person's decision. Nothing is sent.
// Dies here: an awaiting row, which waits and expires; or a claim without a row.
func (e *Engine) hold(ctx context.Context, f *flight, h *holder, row intent.Receipt) (Answer, *standing) {
	row.Status, row.Executions = intent.AwaitingApproval, 0
	row.Retry, row.StartedAt, row.SettleBy = intent.RetryNever, time.Time{}, time.Time{}
	row.NextCheck = row.CreatedAt.Add(f.req.Tool.Approval.Expires)
	row.NotifyAt = e.notify(row.CreatedAt)
	begun, err := e.Store.Begin(ctx, row) // ambiguous and yet written: it waits for a person, as it should
	if err != nil {
		e.release(ctx, h)
		e.Log.Warn("write-ahead failed", "step", "begin", "key", row.Key.Short(), "error", err)
		return notSent("store_unavailable", "The gateway cannot write to its store at the moment.", time.Second), nil
	}
	e.adopt(ctx, h, begun.Row)
	return Answer{}, new(e.standingRow(f.id, begun.Row))
}

// meaning turns a verdict on an execution into the move that it allows.
type meaning func(t *downstream.Tool, r *intent.Receipt, v downstream.Verdict, at time.Time) intent.Settlement

// firstMove is what a verdict means for a key of which nothing else can have happened.
func (e *Engine) firstMove(t *downstream.Tool, r *intent.Receipt, v downstream.Verdict, at time.Time) intent.Settlement {
	switch v.Status {
	case intent.Completed:
		return r.CompleteMove("downstream", v.Outcome, at)
	case intent.Rejected:
		by := "downstream"
		if v.Unsent {
			by = "gateway"
		}
		return r.RejectMove(by, v.Retry, v.RetryAfter, v.Reason, v.Outcome, v.Unsent, at)
	}
	return r.LoseMove(v.Reason, v.Outcome, e.plan(t, r, at), at)
}

// claim asks Redis for the guard; when Redis cannot be asked, the row decides instead:
// slower, still safe, for the row is the arbiter anyway.
func (e *Engine) claim(ctx context.Context, f *flight, h *holder) standing {
	ctx, span := step(ctx, tracing.SpanClaim)
	defer span.End()
	if e.redis.up() {
		e.holders.add(h)
		got, err := e.Lock.Claim(ctx, h.ask)
		e.redis.note(err)
		if err == nil {
			if got.Code != lock.Claimed {
				e.holders.drop(h)
				return e.standingRecord(ctx, f.id, got.Code, got.Record)
			}
			h.fence.Store(got.Record.Fence)
			return standing{code: lock.Claimed}
		}
		e.Log.Warn("redis cannot be asked; the store decides alone", "step", "claim", "key", f.id.Key.Short(), "error", err)
		e.holders.drop(h)
		if h.ask.Hot {
			e.holders.leave(h) // it may have been applied, and would count as started
		}
	}
	if f.req.Tool.Durability == intent.Hot {
		return standing{code: lost, problem: notSent("redis_unavailable", "The gateway cannot reach its Redis, and "+f.req.Tool.Name+" is kept there alone.", time.Second)}
	}
	row, err := e.Store.Get(ctx, f.id.Key)
	switch {
	case errors.Is(err, intent.ErrNone):
		return standing{code: lock.Claimed}
	case err != nil:
		e.Log.Warn("store cannot be asked", "step", "claim", "key", f.id.Key.Short(), "error", err)
		return standing{code: lost, problem: notSent("store_unavailable", "The gateway can reach neither its Redis nor its store.", time.Second)}
	}
	found := e.standingRow(f.id, row)
	if found.code == free {
		found.code = lock.Claimed // rejected in a way that allows this call: Begin decides
	}
	return found
}
