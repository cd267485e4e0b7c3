package redislock_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-gateway/latchkey/lock"
	"github.com/latchkey-gateway/latchkey/lock/locktest"
	"github.com/latchkey-gateway/latchkey/lock/redislock"
)

func TestExerciseCluster(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	nodes := locktest.StartCluster(t, 3)
	o := redislock.Options{Mode: redislock.Cluster, Addrs: []string{nodes[0].Addr}}
	l := open(t, o)
	if warnings, err := l.Check(t.Context()); err != nil || len(warnings) != 0 {
		t.Errorf("check: %q, %v", warnings, err)
	}
	t.Run("spread", func(t *testing.T) {
		t.Parallel()
		for range 64 {
			if _, err := l.Claim(t.Context(), locktest.NewAsk()); err != nil {
				t.Fatal(err)
			}
		}
		for _, node := range nodes {
			if node.Must(t, "DBSIZE") == ":0" {
				t.Errorf("nothing on %s", node.Addr)
			}
		}
	})
	t.Run("a slot that moved is followed", func(t *testing.T) {
		t.Parallel()
		client := open(t, redislock.Options{Mode: redislock.Cluster, Addrs: o.Addrs, Prefix: "moved"})
		a := locktest.NewAsk()
		key := "moved:{" + a.Guard.String() + "}"
		if got, err := client.Claim(t.Context(), a); err != nil || got.Code != lock.Claimed {
			t.Fatalf("%+v, %v", got, err) // now it knows who has the slot
		}
		if err := client.Release(t.Context(), a.Guard, a.ClaimID); err != nil {
			t.Fatal(err)
		}
		slot := strings.TrimPrefix(nodes[0].Must(t, "CLUSTER", "KEYSLOT", key), ":")
		n, err := strconv.Atoi(slot)
		if err != nil {
			t.Fatal(err)
		}
		from := nodes[n*len(nodes)/16384]
		to := nodes[(n*len(nodes)/16384+1)%len(nodes)]
		for _, node := range []*locktest.RedisServer{to, from} {
			node.Must(t, "CLUSTER", "SETSLOT", slot, "NODE", to.Must(t, "CLUSTER", "MYID"))
		}
		if got, err := client.Claim(t.Context(), a); err != nil || got.Code != lock.Claimed || got.Record.Fence != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		if to.Must(t, "EXISTS", key) != ":1" {
			t.Error("the record is not where the slot went")
		}
	})
	t.Run("a cluster taken for a standalone Redis is noticed", func(t *testing.T) {
		t.Parallel()
		standalone := open(t, redislock.Options{Addrs: []string{nodes[1].Addr}})
		failed := false
		for range 32 { // some guard is elsewhere
			_, err := standalone.Claim(t.Context(), locktest.NewAsk())
			failed = failed || err != nil && redis.HasErrorPrefix(err, "MOVED")
		}
		if !failed {
			t.Error("a cluster taken for a standalone Redis is not noticed")
		}
	})
	locktest.Exercise(t, func(t *testing.T) (locktest.Subject, func(time.Duration)) {
		return open(t, o), time.Sleep
	})
}

func TestExerciseSentinel(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a sentinel")
	}
	s := locktest.StartSentinels(t)
	o := redislock.Options{Mode: redislock.Sentinel, MasterName: locktest.SentinelMaster, Addrs: []string{s.Addr}}
	l := open(t, o)
	if warnings, err := l.Check(t.Context()); err != nil || len(warnings) != 0 {
		t.Errorf("check: %q, %v", warnings, err)
	}
	t.Run("before", func(t *testing.T) {
		locktest.Exercise(t, func(t *testing.T) (locktest.Subject, func(time.Duration)) {
			return open(t, o), time.Sleep
		})
	})
	t.Run("failover", func(t *testing.T) {
		a := locktest.NewAsk()
		if _, err := l.Claim(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		s.Failover(t)
		until(t, "the new primary is used, scripts and all", func() bool {
			got, err := l.Claim(t.Context(), a)
			return err == nil && got.Code == lock.Claimed
		})
		until(t, "and is ready", func() bool { return l.Ready(t.Context()) == nil })
		if r, err := l.Get(t.Context(), a.Guard); err != nil || r.Fence != 1 || r.ClaimID != a.ClaimID {
			t.Errorf("get: %+v, %v", r, err)
		}
	})
}
