package locktest

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// StartCluster starts a Redis Cluster of n primaries and returns its nodes when all of them
// agree on it. It takes seconds.
func StartCluster(tb testing.TB, n int) []*RedisServer {
	tb.Helper()
	const slots = 16384
	nodes := make([]*RedisServer, n)
	for i := range nodes {
		nodes[i] = StartRedis(tb, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
		nodes[i].Must(tb, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/n), strconv.Itoa((i+1)*slots/n-1))
		nodes[i].Must(tb, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
	}
	for _, node := range nodes[1:] {
		host, port, _ := net.SplitHostPort(nodes[0].Addr)
		node.Must(tb, "CLUSTER", "MEET", host, port)
	}
	for _, node := range nodes {
		wait(tb, "the cluster is whole", func() bool {
			info := node.info(tb, "CLUSTER", "INFO")
			return info["cluster_state"] == "ok" && info["cluster_known_nodes"] == strconv.Itoa(n)
		})
	}
	return nodes
}

// Sentinels is a primary with one replica and one sentinel that watches them.
type Sentinels struct {
	Addr             string // the sentinel's
	Primary, Replica *RedisServer
	sentinel         *RedisServer
}

// SentinelMaster is the name that StartSentinels' sentinel knows the primary by.
const SentinelMaster = "main"

// StartSentinels returns when the replica is in sync and the sentinel knows it.
func StartSentinels(tb testing.TB) *Sentinels {
	tb.Helper()
	s := &Sentinels{Primary: StartRedis(tb)}
	host, port, _ := net.SplitHostPort(s.Primary.Addr)
	s.Replica = StartRedis(tb, "--replicaof", host, port, "--repl-diskless-sync-delay", "0")
	conf := filepath.Join(tb.TempDir(), "sentinel.conf")
	text := "sentinel monitor " + SentinelMaster + " " + host + " " + port + " 1\n" +
		"sentinel down-after-milliseconds " + SentinelMaster + " 1000\n" +
		"sentinel failover-timeout " + SentinelMaster + " 5000\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	s.sentinel = startServer(tb, []string{conf, "--sentinel"})
	s.Addr = s.sentinel.Addr
	wait(tb, "the replica is in sync", func() bool {
		return s.Replica.info(tb, "INFO", "replication")["master_link_status"] == "up"
	})
	wait(tb, "the sentinel knows the replica", func() bool {
		info := s.sentinel.info(tb, "INFO", "sentinel")
		return info["master0"] == "name="+SentinelMaster+",status=ok,address="+s.Primary.Addr+",slaves=1,sentinels=1"
	})
	return s
}

// Failover asks the sentinel to promote the replica, and returns when it is the primary.
func (s *Sentinels) Failover(tb testing.TB) {
	tb.Helper()
	wait(tb, "the sentinel takes the order", func() bool {
		reply, err := s.sentinel.ask("SENTINEL", "FAILOVER", SentinelMaster)
		return err == nil && reply == "+OK"
	})
	wait(tb, "the replica is promoted", func() bool {
		return s.Replica.info(tb, "INFO", "replication")["role"] == "master"
	})
}

func wait(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if so() {
			return
		}
	}
	tb.Fatalf("never: %s", what)
}
