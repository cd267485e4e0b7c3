package redislock

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Modes of Options.
const (
	Standalone = "standalone"
	Sentinel   = "sentinel"
	Cluster    = "cluster"
)

// Options say which Redis, and how long to wait for it.
type Options struct {
	Mode       string   // standalone (default), sentinel or cluster
	Addrs      []string // host:port of Redis; of the sentinels; of some of the cluster's nodes
	MasterName string   // sentinel only: the name that the sentinels watch
	Username   string
	Password   string
	// SentinelUsername and SentinelPassword are for the sentinels themselves.
	SentinelUsername string
	SentinelPassword string
	TLS              *tls.Config // nil: plain TCP
	DB               int         // not in a cluster
	Prefix           string      // of every key; default "latchkey"

	// Timeout bounds each of: connecting, waiting to be sent, and the round trip. Default
	// 500 ms. A verb is answered within three of them at the worst.
	Timeout time.Duration
	// Senders is how many pipelines may be in flight at once; default 2. One is the
	// cheapest, by a little, and lets a slow node of a cluster hold up all others.
	Senders int
	// Linger is how long a pipeline waits for more where several callers wait already;
	// default 1 ms, negative not at all.
	Linger time.Duration
}

func (o Options) withDefaults() Options {
	if o.Mode == "" {
		o.Mode = Standalone
	}
	if o.Prefix == "" {
		o.Prefix = "latchkey"
	}
	if o.Timeout <= 0 {
		o.Timeout = 500 * time.Millisecond
	}
	if o.Linger == 0 {
		o.Linger = time.Millisecond
	}
	if o.Senders <= 0 {
		o.Senders = 2
	}
	return o
}

func (o Options) validate() error {
	switch {
	case len(o.Addrs) == 0:
		return errors.New("redislock: no address given")
	case o.Mode != Standalone && o.Mode != Sentinel && o.Mode != Cluster:
		return fmt.Errorf("redislock: mode %q is not one of standalone, sentinel, cluster", o.Mode)
	case o.Mode == Standalone && len(o.Addrs) > 1:
		return errors.New("redislock: standalone takes one address")
	case o.Mode == Sentinel && o.MasterName == "":
		return errors.New("redislock: sentinel needs the master's name")
	case o.Mode != Sentinel && o.MasterName != "":
		return fmt.Errorf("redislock: a master's name means sentinel, not %s", o.Mode)
	case o.Mode == Cluster && o.DB != 0:
		return errors.New("redislock: a cluster has database 0 only")
	case strings.ContainsAny(o.Prefix, "{}"):
		return errors.New("redislock: the prefix must not contain braces: they would move the keys' hash tags")
	}
	return nil
}

func (o Options) client() redis.UniversalClient {
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs:            o.Addrs,
		MasterName:       o.MasterName,
		IsClusterMode:    o.Mode == Cluster,
		Username:         o.Username,
		Password:         o.Password,
		SentinelUsername: o.SentinelUsername,
		SentinelPassword: o.SentinelPassword,
		TLSConfig:        o.TLS,
		DB:               o.DB,

		// Fail at once: the caller knows what to do without Redis.
		MaxRetries:            -1,
		DialerRetries:         1,
		DialTimeout:           o.Timeout,
		ReadTimeout:           o.Timeout,
		WriteTimeout:          o.Timeout,
		PoolTimeout:           o.Timeout,
		ContextTimeoutEnabled: true,

		PipelinePoolSize: -1, // everything is a pipeline: one pool is enough
		DisableIdentity:  true,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	})
}
