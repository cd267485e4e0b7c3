package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/latchkey-gateway/latchkey/loadtest/bench"
	"github.com/latchkey-gateway/latchkey/loadtest/rig"
)

// stackOptions say how the measured stack is set up.
type stackOptions struct {
	latchkey    string // the gateway's program; "": build it
	connections int
	appendOnly  bool // Redis writes its append-only file
	pprof       bool // the gateways serve profiles
}

// stack is everything that runs during a benchmark.
type stack struct {
	bench.Stack
	operator string // the measured replica's operator address
	machine  map[string]string
}

// agentKey is not a secret: the gateways listen on loopback for the time of a run.
const agentKey = "loadtest-agent-key"

// startStack starts, in r, a downstream, the bare proxy, Redis, PostgreSQL and two replicas
// of the gateway on these two.
func startStack(ctx context.Context, r *rig.Rig, o stackOptions) (*stack, error) {
	sync, err := r.SyncTime()
	if err != nil {
		return nil, err
	}
	downstream, err := r.StartSelf(ctx, "downstream", roleDownstream)
	if err != nil {
		return nil, err
	}
	proxy, err := r.StartSelf(ctx, "proxy", roleProxy, downstream.Addr, "--connections", strconv.Itoa(o.connections))
	if err != nil {
		return nil, err
	}
	redis, err := r.StartRedis(ctx, o.appendOnly)
	if err != nil {
		return nil, err
	}
	postgres, err := r.StartPostgres(ctx)
	if err != nil {
		return nil, err
	}
	if o.latchkey == "" {
		if o.latchkey, err = r.Build(ctx); err != nil {
			return nil, err
		}
	}
	config := gatewayConfig(o, downstream.Addr, redis.Addr, postgres.DSN)
	first, err := r.StartGateway(ctx, "gateway-1", o.latchkey, config)
	if err != nil {
		return nil, err
	}
	second, err := r.StartGateway(ctx, "gateway-2", o.latchkey, config)
	if err != nil {
		return nil, err
	}
	return &stack{
		Stack: bench.Stack{
			Downstream: downstream.Addr, Proxy: proxy.Addr, First: first.Addr, Second: second.Addr, Key: agentKey,
			Meters: map[string]bench.Meter{
				bench.PartProxy:      meter(proxy.PID),
				bench.PartGateway:    meter(first.PID),
				bench.PartRedis:      meter(redis.PID),
				bench.PartPostgres:   meter(postgres.PID),
				bench.PartDownstream: meter(downstream.PID),
				bench.PartLoad:       ownCPU,
			},
			Counters: map[string]bench.Counter{
				bench.CountRedisCommands:        redis.Commands,
				bench.CountRedisReads:           redis.Reads,
				bench.CountPostgresTransactions: postgres.Transactions,
			},
		},
		operator: first.Operator,
		machine: map[string]string{
			"go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
			"load_before": rig.LoadAverage(), "fsync": sync.Round(10 * time.Microsecond).String(),
			"cpus": strconv.Itoa(runtime.NumCPU()), "gomaxprocs": strconv.Itoa(runtime.GOMAXPROCS(0)),
			"redis": redis.Version, "redis_appendonly": strconv.FormatBool(o.appendOnly), "postgres": postgres.Version,
		},
	}, nil
}

// gatewayConfig is an ordinary config with limits that do not get in the way.
func gatewayConfig(o stackOptions, downstream, redisAddr, dsn string) map[string]any {
	sum := sha256.Sum256([]byte(agentKey))
	tool := func(name, durability string) map[string]any {
		return map[string]any{
			"class":       "effectful",
			"description": "Counts an effect",
			"downstream":  "effects",
			"request":     map[string]any{"method": "POST", "path": "/effects/" + name, "body": "args"},
			"timeout":     "10s",
			"durability":  durability,
			"on_unknown":  "park",
			"input_schema": map[string]any{
				"type":     "object",
				"required": []string{"ref", "to", "amount"},
				"properties": map[string]any{
					"ref": map[string]any{"type": "string"}, "to": map[string]any{"type": "string"},
					"amount": map[string]any{"type": "integer"}, "currency": map[string]any{"type": "string"},
					"memo": map[string]any{"type": "string"},
				},
			},
		}
	}
	config := map[string]any{
		"region": "bench",
		"redis":  map[string]any{"mode": "standalone", "addrs": []string{redisAddr}},
		"store":  map[string]any{"driver": "postgres", "dsn": dsn},
		"limits": map[string]any{"in_flight": 4096},
		"auth": map[string]any{"keys": []any{map[string]any{
			"id": "bench", "sha256": hex.EncodeToString(sum[:]), "tenant": "bench", "roles": []string{"agent", "operator"},
		}}},
		"downstreams": map[string]any{"effects": map[string]any{
			"base_url": "http://" + downstream, "timeout": "10s", "max_in_flight": max(1024, 2*o.connections),
		}},
		"tools": map[string]any{
			bench.ToolDurable: tool(bench.ToolDurable, "durable"),
			bench.ToolHot:     tool(bench.ToolHot, "hot"),
		},
	}
	if o.pprof {
		config["pprof"] = true
	}
	return config
}

func meter(pid int) bench.Meter {
	return func() (time.Duration, error) { return rig.CPUTime(pid) }
}

// ownCPU is this process alone: the others are its children.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
