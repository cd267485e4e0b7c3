package chaos

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/rig"
)

// Setup says what a stage is made of.
type Setup struct {
	Latchkey string // the gateway's program
	Replicas int
	Redis    string // standalone, sentinel or cluster
	Standby  bool   // PostgreSQL has a synchronous standby
	Nginx    bool   // in front of the replicas; else agents knock at them in turn
	Mix      string // of target.Mixes
	Seed     uint64
	Faults   map[string]any // the gateways' own, by tool
	// ProviderArgs start this very program as the target; the seed, mix and patience follow.
	ProviderArgs []string
}

// Stage is everything that runs, with links between its parts that can be broken.
type Stage struct {
	Setup
	Target   *rig.Server
	Replicas []*Replica
	Redis    RedisSide
	Primary  *rig.PostgresNode // changes when it fails over
	Standby  *rig.PostgresNode // nil: none
	Doors    []string          // for agents: the balancer first
	Versions map[string]string

	rig *rig.Rig
}

// Replica is a gateway and its own links.
type Replica struct {
	*rig.Gateway
	Name  string
	Links map[string]*Link // "target", "redis" (standalone alone), "postgres-1", "postgres-2"
}

// RedisSide is the Redis servers of a stage.
type RedisSide struct {
	Mode      string
	Nodes     []*rig.RedisNode
	Sentinels []*rig.RedisNode
}

// Start starts a stage in r, which ends its processes. Close ends its links.
func Start(ctx context.Context, r *rig.Rig, s Setup) (*Stage, error) {
	g := &Stage{Setup: s, rig: r, Versions: map[string]string{}}
	if err := g.start(ctx); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func (g *Stage) start(ctx context.Context) (err error) {
	args := append(g.ProviderArgs, "--seed", strconv.FormatUint(g.Seed, 10), "--mix", g.Mix, "--patience", Patience.String())
	if g.Target, err = g.rig.StartSelf(ctx, "target", args...); err != nil {
		return err
	}
	if err := g.startRedis(ctx); err != nil {
		return err
	}
	if g.Setup.Standby {
		g.Primary, g.Standby, err = g.rig.StartPostgresPair(ctx)
	} else {
		g.Primary, err = g.rig.StartPostgresAlone(ctx)
	}
	if err != nil {
		return err
	}
	var addrs []string
	for i := range g.Setup.Replicas {
		replica, err := g.startReplica(ctx, i)
		if err != nil {
			return err
		}
		g.Replicas = append(g.Replicas, replica)
		addrs = append(addrs, replica.Addr)
	}
	g.Doors = addrs
	if g.Nginx {
		balancer, err := g.rig.StartNginx(ctx, addrs)
		if err != nil {
			return err
		}
		g.Doors = append([]string{balancer.Addr}, addrs...)
		g.Versions["nginx"] = balancer.Version
	}
	return g.versions(ctx)
}

func (g *Stage) startRedis(ctx context.Context) (err error) {
	g.Redis.Mode = g.Setup.Redis
	switch g.Setup.Redis {
	case "standalone":
		n, err := g.rig.StartRedisNode(ctx, "redis-1")
		g.Redis.Nodes = []*rig.RedisNode{n}
		return err
	case "sentinel":
		g.Redis.Nodes, g.Redis.Sentinels, err = g.rig.StartSentinels(ctx)
	case "cluster":
		g.Redis.Nodes, err = g.rig.StartRedisCluster(ctx)
	default:
		return fmt.Errorf("chaos: Redis is standalone, sentinel or cluster, not %q", g.Setup.Redis)
	}
	return err
}

func (g *Stage) startReplica(ctx context.Context, i int) (*Replica, error) {
	p := &Replica{Name: "gateway-" + strconv.Itoa(i+1), Links: map[string]*Link{}}
	link := func(name, to string) (string, error) {
		k, err := NewLink(to)
		if err != nil {
			return "", err
		}
		p.Links[name] = k
		return k.Addr, nil
	}
	downstream, err := link("target", g.Target.Addr)
	if err != nil {
		return nil, err
	}
	redis := map[string]any{"mode": g.Redis.Mode}
	switch g.Redis.Mode {
	case "standalone":
		addr, err := link("redis", g.Redis.Nodes[0].Addr)
		if err != nil {
			return nil, err
		}
		redis["addrs"] = []string{addr}
	case "sentinel": // clients learn the servers' own addresses: there is no link to break
		redis["addrs"], redis["master_name"] = addresses(g.Redis.Sentinels), rig.MasterName
	case "cluster":
		redis["addrs"] = addresses(g.Redis.Nodes)
	}
	var stores []string
	for _, n := range []*rig.PostgresNode{g.Primary, g.Standby} {
		if n == nil {
			continue
		}
		addr, err := link(n.Name, n.Addr)
		if err != nil {
			return nil, err
		}
		stores = append(stores, addr)
	}
	store := map[string]any{"driver": "postgres", "dsn": rig.PostgresDSN(stores...)}
	config := gatewayConfig("region-"+strconv.Itoa(i%2+1), downstream, redis, store, g.Setup.Faults)
	config["replica"] = p.Name
	var args []string
	if len(g.Setup.Faults) > 0 {
		args = append(args, "--allow-faults")
	}
	if p.Gateway, err = g.rig.LaunchGateway(p.Name, g.Latchkey, config, args...); err != nil {
		return nil, err
	}
	return p, p.AwaitReady(ctx, 30*time.Second)
}

// Close ends the links.
func (g *Stage) Close() {
	for _, p := range g.Replicas {
		for _, k := range p.Links {
			k.Close()
		}
	}
}

// Logs are what all replicas logged, over all their lives.
func (g *Stage) Logs() string {
	var all strings.Builder
	for _, p := range g.Replicas {
		all.WriteString(p.Log())
	}
	return all.String()
}

func (g *Stage) versions(ctx context.Context) error {
	info, err := g.Redis.Nodes[0].Do(ctx, "INFO", "server")
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(info, "redis_version:")
	version, _, _ := strings.Cut(rest, "\r\n")
	g.Versions["redis"] = version + " " + g.Redis.Mode
	g.Versions["postgres"], err = g.Primary.Version(ctx)
	if g.Standby != nil {
		g.Versions["postgres"] += " with a synchronous standby"
	}
	g.Versions["replicas"] = strconv.Itoa(len(g.Replicas))
	return err
}

func addresses(nodes []*rig.RedisNode) []string {
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}
