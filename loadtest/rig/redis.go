package rig

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a running redis-server.
type Redis struct {
	*Process
	Addr    string
	Version string
}

// StartRedis starts an empty redis-server that evicts nothing and writes no snapshots: one
// would fork in the middle of a measurement. appendOnly turns the append-only file on, at
// Redis' own default of one fsync a second.
func (r *Rig) StartRedis(ctx context.Context, appendOnly bool) (*Redis, error) {
	path, err := RedisServer()
	if err != nil {
		return nil, err
	}
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(addr)
	aof := map[bool]string{false: "no", true: "yes"}[appendOnly]
	p, err := r.Start(Spec{Name: "redis", Path: path, Args: []string{"--bind", host, "--port", port,
		"--save", "", "--appendonly", aof, "--maxmemory-policy", "noeviction", "--dir", r.Dir}})
	if err != nil {
		return nil, err
	}
	rd := &Redis{Process: p, Addr: addr}
	return rd, await(ctx, p, 10*time.Second, func(ctx context.Context) error {
		// Asked only once it listens: the client logs every dial that fails.
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		c.Close()
		rd.Version, err = rd.info(ctx, "server", redisVersion)
		return err
	})
}

// RedisServer finds redis-server. Without one the error is ErrMissing.
func RedisServer() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("rig: redis-server is %w", ErrMissing)
	}
	return path, nil
}

var (
	redisVersion  = regexp.MustCompile(`(?m)^redis_version:(\S+)\r?$`)
	redisCommands = regexp.MustCompile(`(?m)^total_commands_processed:(\d+)\r?$`)
	redisReads    = regexp.MustCompile(`(?m)^total_reads_processed:(\d+)\r?$`)
)

// Commands returns how many commands the server has processed since its start, those
// included that scripts issued.
func (rd *Redis) Commands(ctx context.Context) (int64, error) {
	return rd.count(ctx, redisCommands)
}

// Reads returns how often the server has read requests from a connection. Commands that a
// client sends together are read together.
func (rd *Redis) Reads(ctx context.Context) (int64, error) {
	return rd.count(ctx, redisReads)
}

func (rd *Redis) count(ctx context.Context, field *regexp.Regexp) (int64, error) {
	text, err := rd.info(ctx, "stats", field)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

func (rd *Redis) info(ctx context.Context, section string, field *regexp.Regexp) (string, error) {
	c := redis.NewClient(&redis.Options{Addr: rd.Addr, MaxRetries: -1, DialerRetries: 1})
	defer c.Close()
	text, err := c.Info(ctx, section).Result()
	if err != nil {
		return "", fmt.Errorf("rig: redis: %w", err)
	}
	m := field.FindStringSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("rig: redis: INFO %s does not tell %s", section, field)
	}
	return m[1], nil
}
