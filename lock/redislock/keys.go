package redislock

import (
	"encoding/hex"
	"strconv"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Every key that this package touches is built here.
//
//	<prefix>:{<guard>}    string   one record (record.go). A settled record that the durable
//	                               store has acknowledged lives for the ttl of its settling;
//	                               every other record has no expiry: a lease frees no key.
//	                      channel  of the same name: an empty message after the record was
//	                               written by settle or removed by release.
//	<prefix>:open:{<nn>}  sorted set of the guards (32 raw bytes) in shard nn whose claim is
//	                               not known to have ended, by the time in ms, on Redis'
//	                               clock, since when. No expiry; empty sets vanish. A hint:
//	                               an entry too many is closed by the sweeper, one too few
//	                               is found by the next caller of the key.
//	<prefix>:probe        string   lives a second: what Ready and Check write.
//
// The hash tags let a cluster spread records and shards; no script touches two keys.
type keys struct{ prefix string }

// openShards spreads the open index over a cluster's nodes. Changing it orphans entries.
const openShards = 16

func (k keys) record(g intent.Guard) string {
	var buf [192]byte // in one piece: every verb builds one
	b := append(append(buf[:0], k.prefix...), ":{"...)
	return string(append(hex.AppendEncode(b, g[:]), '}'))
}

func (k keys) channel(g intent.Guard) string { return k.record(g) }

func (k keys) shardOf(g intent.Guard) string { return k.shard(int(g[0]) % openShards) }

func (k keys) shard(n int) string {
	nn := strconv.Itoa(n)
	if n < 10 {
		nn = "0" + nn
	}
	return k.prefix + ":open:{" + nn + "}"
}

func (k keys) probe() string { return k.prefix + ":probe" }
