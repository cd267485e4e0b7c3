package once

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
)

// Polling bounds. Publish makes waiting fast where it arrives; polling makes it certain.
const (
	pollFirst = 25 * time.Millisecond
	pollMost  = time.Second
)

// await waits until a key that another replica holds has left started, and returns what
// stands then; free when the claim was given back or forgotten. It never acts: not even
// when the holder vanishes, for only a claim and a row permit that. It ends early, still
// Held, when nobody waits for the flight any more.
func (e *Engine) await(ctx context.Context, f *flight, s standing) standing {
	changed, stop := e.Lock.Watch(f.id.Guard)
	defer stop()
	ctx = unnoticed(ctx)
	for pause := pollFirst; ; pause = min(pause*3/2, pollMost) {
		s = e.look(ctx, f, s)
		if s.code == lock.Held {
			e.note(ctx, f, s)
		}
		if s.code != lock.Held || f.waiting.Load() == 0 {
			return s
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-changed:
		case <-timer.C:
		case <-e.draining:
			timer.Stop()
			return s
		}
		timer.Stop()
	}
}

// look reads what stands now, from Redis or, while Redis is down, from the store, and
// repairs a record whose lease has run out.
func (e *Engine) look(ctx context.Context, f *flight, was standing) standing {
	if e.redis.up() {
		rec, err := e.Lock.Get(ctx, f.id.Guard)
		if err == nil && rec.Status == intent.Started && rec.Lease <= 0 {
			if failed := e.Repair(ctx, rec); failed != nil {
				e.Log.Warn("a record could not be repaired", "key", rec.Key.Short(), "error", failed)
			} else {
				rec, err = e.Lock.Get(ctx, f.id.Guard)
			}
		}
		switch {
		case errors.Is(err, intent.ErrNone):
			return standing{code: free}
		case err == nil:
			return e.standingRecord(ctx, f.id, waiting(f.id, rec), rec)
		}
		e.redis.note(err) // a reply that did not come says nothing about anybody's key
	}
	row, err := e.Store.Get(ctx, f.id.Key)
	switch {
	case errors.Is(err, intent.ErrNone):
		if f.req.Tool.Durability == intent.Hot {
			return was // Redis alone knows
		}
		return standing{code: free}
	case err != nil:
		return was // neither can be asked: go on waiting
	}
	s := e.standingRow(f.id, row)
	if s.code == free {
		s.code = lock.Settled // as in waiting
	}
	return s
}

// waiting judges a record for a call that waited on it: a rejection that would allow
// another try is this call's answer all the same. Otherwise a crowd that waited for one
// refused call would become a queue of tries.
func waiting(id intent.Identity, rec lock.Record) lock.Code {
	code := judge(id, rec)
	if code == free && rec.Key == id.Key && rec.Fingerprint == id.Fingerprint {
		return lock.Settled
	}
	return code
}

// note shows those who stop waiting what another replica has on record.
func (e *Engine) note(ctx context.Context, f *flight, s standing) {
	if s.receipt != nil {
		f.stands(s.receipt)
	} else if f.leaving.Load() {
		if row, err := e.Store.Get(ctx, f.id.Key); err == nil {
			f.stands(&row)
		}
	}
}
