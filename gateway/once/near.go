package once

import (
	"sync"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"github.com/latchkey-gateway/latchkey/intent"
)

// nearCache keeps completed receipts of this replica, bounded by bytes. Only what the
// store has acknowledged gets in, and completed is final: so nothing in here is ever stale.
// Keys contain the tenant: one tenant cannot meet another's entry.
type nearCache struct {
	receipts     *otter.Cache[intent.Key, *cached]
	hits, misses atomic.Int64
}

// cached is one receipt, and its bytes once it was asked for.
type cached struct {
	receipt  intent.Receipt
	rendered func() []byte
	replays  atomic.Int64
}

func (n *nearCache) init(maxBytes int64) {
	n.receipts = otter.Must(&otter.Options[intent.Key, *cached]{
		MaximumWeight: uint64(max(maxBytes, 1)),
		Weigher: func(_ intent.Key, c *cached) uint32 {
			return uint32(1024 + 3*weight(&c.receipt)) // base64 and both forms, at the most
		},
	})
}

// answer replays a completed receipt. The fingerprint is compared here too: the same key
// with other arguments is a mismatch wherever it is met.
func (n *nearCache) answer(id intent.Identity) (Answer, bool) {
	c, ok := n.receipts.GetIfPresent(id.Key)
	if !ok || c.receipt.Fingerprint != id.Fingerprint {
		n.misses.Add(1)
		return Answer{}, false // the claim answers a mismatch
	}
	n.hits.Add(1)
	return Answer{Receipt: c.receipt, rendered: c.rendered(), Replayed: true, Decision: intent.Replayed, Arrival: 1 + int(c.replays.Add(1))}, true
}

func (n *nearCache) add(r intent.Receipt) {
	if r.Expired {
		return
	}
	n.receipts.Set(r.Key, &cached{receipt: r, rendered: sync.OnceValue(func() []byte { return r.AppendJSON(nil, true) })})
}

// Near says how many calls this replica's memory answered, how many it could not, and about
// how many bytes it holds.
func (e *Engine) Near() (hits, misses, bytes int64) {
	return e.near.hits.Load(), e.near.misses.Load(), int64(e.near.receipts.WeightedSize())
}
