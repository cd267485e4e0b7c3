package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisNode is one redis-server of several, which can be killed and started again.
type RedisNode struct {
	*Process
	Addr string
	rig  *Rig
	spec Spec
}

// StartRedisNode starts a redis-server that evicts nothing and keeps nothing on disk: when
// it is killed, its memory is lost. Further args go to its command line.
func (r *Rig) StartRedisNode(ctx context.Context, name string, args ...string) (*RedisNode, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	return r.redisNode(ctx, name, addr, append([]string{"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction",
		"--repl-diskless-sync-delay", "0", "--dbfilename", name + ".rdb"}, args...))
}

func (r *Rig) redisNode(ctx context.Context, name, addr string, args []string) (*RedisNode, error) {
	path, err := RedisServer()
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(addr)
	n := &RedisNode{Addr: addr, rig: r, spec: Spec{Name: name, Path: path,
		Args: append(args, "--bind", host, "--port", port, "--dir", r.Dir, "--protected-mode", "no")}}
	return n, n.Restart(ctx)
}

// Restart starts a node that has ended, empty, on the same address.
func (n *RedisNode) Restart(ctx context.Context) error {
	p, err := n.rig.Start(n.spec)
	if err != nil {
		return err
	}
	n.Process = p
	return await(ctx, p, 10*time.Second, func(ctx context.Context) error { return listening(ctx, n.Addr) })
}

// Do sends one command to the node.
func (n *RedisNode) Do(ctx context.Context, args ...any) (string, error) {
	c := redis.NewClient(&redis.Options{Addr: n.Addr, MaxRetries: -1, DialerRetries: 1, ReadTimeout: 3 * time.Second})
	defer c.Close()
	v, err := c.Do(ctx, args...).Result()
	if err != nil {
		return "", fmt.Errorf("rig: %s: %v: %w", n.Name, args[0], err)
	}
	return fmt.Sprint(v), nil
}

// Role is "master" or "slave".
func (n *RedisNode) Role(ctx context.Context) (string, error) {
	text, err := n.Do(ctx, "INFO", "replication")
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(text, "role:")
	role, _, _ := strings.Cut(rest, "\r\n")
	return role, nil
}

// MasterName is the name under which sentinels know the primary.
const MasterName = "latchkey"

// StartSentinels starts a primary, two replicas and three sentinels that watch them. A
// primary that is gone for a second is replaced.
func (r *Rig) StartSentinels(ctx context.Context) (nodes, sentinels []*RedisNode, err error) {
	for i := range 3 {
		var args []string
		if i > 0 {
			host, port, _ := net.SplitHostPort(nodes[0].Addr)
			args = []string{"--replicaof", host + " " + port}
		}
		n, err := r.StartRedisNode(ctx, fmt.Sprintf("redis-%d", i+1), args...)
		if err != nil {
			return nil, nil, err
		}
		nodes = append(nodes, n)
	}
	host, port, _ := net.SplitHostPort(nodes[0].Addr)
	for i := range 3 {
		name := fmt.Sprintf("sentinel-%d", i+1)
		file := r.path(name + ".conf")
		// Sentinels rewrite their file.
		text := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 2\nsentinel down-after-milliseconds %[1]s 1000\n"+
			"sentinel failover-timeout %[1]s 5000\nsentinel parallel-syncs %[1]s 2\n", MasterName, host, port)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, nil, fmt.Errorf("rig: %w", err)
		}
		addr, err := FreeAddr()
		if err != nil {
			return nil, nil, err
		}
		s, err := r.redisNode(ctx, name, addr, []string{file, "--sentinel"})
		if err != nil {
			return nil, nil, err
		}
		sentinels = append(sentinels, s)
	}
	return nodes, sentinels, await(ctx, sentinels[0].Process, 20*time.Second, func(ctx context.Context) error {
		for _, s := range sentinels {
			c := redis.NewSentinelClient(&redis.Options{Addr: s.Addr})
			master, err := c.Master(ctx, MasterName).Result()
			c.Close()
			if err != nil {
				return err
			}
			if master["num-slaves"] != "2" || master["num-other-sentinels"] != "2" {
				return fmt.Errorf("%s knows %s replicas and %s sentinels", s.Name, master["num-slaves"], master["num-other-sentinels"])
			}
		}
		return nil
	})
}

// StartRedisCluster starts three primaries with a replica each.
func (r *Rig) StartRedisCluster(ctx context.Context) ([]*RedisNode, error) {
	var nodes []*RedisNode
	for i := range 6 {
		name := fmt.Sprintf("redis-%d", i+1)
		bus, err := FreeAddr()
		if err != nil {
			return nil, err
		}
		_, port, _ := net.SplitHostPort(bus)
		n, err := r.StartRedisNode(ctx, name, "--cluster-enabled", "yes", "--cluster-config-file", r.path(name+".nodes"),
			"--cluster-port", port, "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no")
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	const slots = 16384
	for i, n := range nodes[:3] {
		if _, err := n.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", slots*i/3, slots*(i+1)/3-1); err != nil {
			return nil, err
		}
	}
	for i, n := range nodes {
		if _, err := n.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1); err != nil {
			return nil, err
		}
		if i > 0 {
			host, port, _ := net.SplitHostPort(n.Addr)
			bus := n.spec.Args[slices.Index(n.spec.Args, "--cluster-port")+1]
			if _, err := nodes[0].Do(ctx, "CLUSTER", "MEET", host, port, bus); err != nil {
				return nil, err
			}
		}
	}
	for i := range 3 { // a replica can only follow whom it has met
		primary, err := nodes[i].Do(ctx, "CLUSTER", "MYID")
		if err != nil {
			return nil, err
		}
		err = await(ctx, nodes[3+i].Process, 20*time.Second, func(ctx context.Context) error {
			_, err := nodes[3+i].Do(ctx, "CLUSTER", "REPLICATE", primary)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return nodes, AwaitCluster(ctx, nodes)
}

// AwaitCluster waits until every node that runs sees all slots served, each by a primary
// with a replica.
func AwaitCluster(ctx context.Context, nodes []*RedisNode) error {
	return await(ctx, nodes[0].Process, 30*time.Second, func(ctx context.Context) error {
		replicas := 0
		for _, n := range nodes {
			info, err := n.Do(ctx, "CLUSTER", "INFO")
			if err != nil {
				return err
			}
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_slots_ok:"+strconv.Itoa(16384)) {
				return fmt.Errorf("%s: the cluster is not whole", n.Name)
			}
			replication, err := n.Do(ctx, "INFO", "replication")
			if err != nil {
				return err
			}
			if strings.Contains(replication, "master_link_status:up") {
				replicas++
			}
		}
		if replicas < len(nodes)/2 {
			return fmt.Errorf("%d replicas follow", replicas)
		}
		return nil
	})
}
