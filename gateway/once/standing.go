package once

import (
	"context"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
)

// Codes beside those of package lock.
const (
	free lock.Code = 100 + iota // nothing stands in the way any more: claim again
	lost                        // neither Redis nor the store can be asked
)

// standing is what stands in a call's way: another arrival's record in Redis or its row.
type standing struct {
	code    lock.Code
	key     intent.Key      // the key on record; differs from the call's on a step conflict
	receipt *intent.Receipt // nil while only a claim is known
	problem Answer          // for lost
	trace   string          // traceparent of the execution on record, the one that a call links to
}

// judge says what a key on record means for a call: what claim.lua would answer, or free.
func judge(id intent.Identity, rec lock.Record) lock.Code {
	code, _, fresh := lock.Judge(&rec, lock.Ask{Guard: id.Guard, Key: id.Key, Fingerprint: id.Fingerprint})
	if fresh {
		return free
	}
	return code
}

func (e *Engine) standingRow(id intent.Identity, row intent.Receipt) standing {
	return standing{code: judge(id, e.record(row)), key: row.Key, receipt: &row, trace: row.Traceparent}
}

// standingRecord reads a record; where its copy of the receipt is missing or of another
// version of the wire format, the row is read.
func (e *Engine) standingRecord(ctx context.Context, id intent.Identity, code lock.Code, rec lock.Record) standing {
	s := standing{code: code, key: rec.Key, trace: rec.Traceparent}
	switch code {
	case lock.Held:
		if started, err := intent.DecodeReceipt(rec.Receipt); err == nil { // hot
			started.Fence, started.ClaimID = rec.Fence, rec.ClaimID
			s.receipt = &started
		}
	case lock.Unknown, lock.Awaiting:
		// Somebody may have settled it, and died before Redis was told. It is rare enough to
		// ask the row; a hot key may have none yet.
		row, err := e.Store.Get(ctx, rec.Key)
		if err == nil && row.Status != rec.Status {
			e.copy(ctx, row)
			return e.standingRow(id, row)
		}
		if err == nil {
			s.receipt = &row
			return s
		}
		return e.readCopy(ctx, s, rec)
	case lock.Settled:
		return e.readCopy(ctx, s, rec)
	}
	return s
}

// readCopy takes the receipt from the record.
func (e *Engine) readCopy(ctx context.Context, s standing, rec lock.Record) standing {
	receipt, err := intent.DecodeReceipt(rec.Receipt)
	if err != nil {
		if receipt, err = e.Store.Get(ctx, rec.Key); err != nil {
			return standing{code: lost, problem: notSent("store_unavailable", "The gateway cannot read this receipt at the moment.", time.Second)}
		}
	}
	s.receipt = &receipt
	if receipt.Status == intent.Completed && receipt.Durable {
		e.near.add(receipt)
	}
	return s
}
