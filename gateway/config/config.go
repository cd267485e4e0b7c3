// Package config reads the gateway's configuration: one YAML or JSON file, strictly.
//
// Unknown fields, duplicate names, wrong types and values out of range are errors, all
// reported at once, each with file, line and field:
//
//	latchkey.yaml:12: tools.send_invoice_email.tmeout: unknown field; did you mean timeout?
//
// Any string may hold ${env:NAME} and ${file:PATH}; $${ stands for a plain ${. A problem's
// text shows such a reference as it was written and never what it stands for.
//
// The structs below are the reference: each field's comment says what it does, in which
// unit, and its default stands in the tag beside it. A complete annotated example is
// cmd/latchkey/latchkey.example.yaml.
package config

import (
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
)

// Config is a whole configuration that passed every check.
type Config struct {
	// Region names where this replica runs; it is kept with every attempt.
	Region string `yaml:"region" default:"local"`
	// Replica names this process in attempts. Default: host name and process id.
	Replica string `yaml:"replica"`
	// Listen is the address of the agents' API, host:port.
	Listen string `yaml:"listen" default:"127.0.0.1:8080"`
	// OperatorListen is the address of the operators' API, metrics and health, host:port.
	OperatorListen string `yaml:"operator_listen" default:"127.0.0.1:8081"`
	// Pprof serves Go's profiles on the operators' address.
	Pprof bool `yaml:"pprof" default:"false"`

	Redis     Redis     `yaml:"redis"`
	Store     Store     `yaml:"store"`
	Limits    Limits    `yaml:"limits"`
	Retention Retention `yaml:"retention"`

	// Lease is how long a claim lasts without being renewed before its outcome counts as
	// unknown. It frees nothing: it detects failure.
	Lease time.Duration `yaml:"lease" default:"10s" min:"1s" max:"1h"`

	Auth Auth `yaml:"auth"`
	// Downstreams are the HTTP services that tools act on, by name.
	Downstreams map[string]Downstream `yaml:"downstreams"`
	// Tools are what agents may call, by name.
	Tools map[string]Tool `yaml:"tools"`
	// Notify tells people that something waits for them. Default: nobody is told.
	Notify *Notify `yaml:"notify"`
	// Faults loses answers on purpose, by tool; for staging only. Default: none.
	Faults  map[string]Fault `yaml:"faults"`
	Tracing Tracing          `yaml:"tracing"`

	file      string
	lines     map[string]int // of every field given, by path
	secrets   []secret
	catalogue *downstream.Catalogue
}

// Redis is where claims are kept.
type Redis struct {
	// Mode is standalone, sentinel, cluster or embedded (inside this process; gone with it).
	Mode string `yaml:"mode" default:"standalone" oneof:"standalone,sentinel,cluster,embedded"`
	// Addrs are host:port: the server, the sentinels or some of the cluster's nodes.
	// Default for standalone: 127.0.0.1:6379.
	Addrs []string `yaml:"addrs"`
	// MasterName is the name under which the sentinels know the primary.
	MasterName string `yaml:"master_name"`
	// Username and Password are sent to the servers. Default: none.
	Username string `yaml:"username"`
	Password string `yaml:"password" secret:"true"`
	// SentinelUsername and SentinelPassword are sent to the sentinels. Default: none.
	SentinelUsername string `yaml:"sentinel_username"`
	SentinelPassword string `yaml:"sentinel_password" secret:"true"`
	// DB is the database's number; a cluster has only 0.
	DB int `yaml:"db" default:"0" min:"0" max:"1048576"`
	// Prefix starts every key's name, so that several gateways can share one Redis.
	Prefix string `yaml:"prefix" default:"latchkey"`
	// TLS encrypts the connections: true, or a mapping. Default: off.
	TLS TLS `yaml:"tls"`
}

// Store is where intents, results and attempts are kept durably.
type Store struct {
	// Driver is postgres or sqlite.
	Driver string `yaml:"driver" default:"postgres" oneof:"postgres,sqlite"`
	// DSN is PostgreSQL's address, as a URL or in key=value form.
	DSN string `yaml:"dsn" secret:"true"`
	// Path is SQLite's file; relative to the working directory.
	Path string `yaml:"path"`
	// Migrate lets serve apply database migrations at its start.
	Migrate bool `yaml:"migrate" default:"true"`
	// SealKey encrypts arguments that a tool redacts and needs again: 32 random bytes as 64
	// hex digits or base64, the same for all replicas. With another key than they were
	// sealed with, arguments are lost and their keys wait for a person. Required where a tool
	// needs redacted arguments again; default: none.
	SealKey string `yaml:"seal_key" secret:"true"`
}

// Notify is a webhook, signed as Standard Webhooks says (standardwebhooks.com).
type Notify struct {
	// URL is where messages are posted: https, or http to this machine. Required.
	URL string `yaml:"url" secret:"true"`
	// Secret signs the messages: whsec_ and the base64 of 24 to 64 random bytes. Required.
	Secret string `yaml:"secret" secret:"true"`
	// Events are what is told: parked (an unknown outcome waits for a person),
	// awaiting_approval, doubt (it may have happened twice). Default: all.
	Events []string `yaml:"events" oneof:"parked,awaiting_approval,doubt"`
}

// Limits bound what one call may cost. Sizes are bytes, or with a unit: 512, 64KiB, 10MB.
type Limits struct {
	// Body is the largest request body taken from a caller.
	Body Size `yaml:"body" default:"1MiB" min:"1KiB" max:"64MiB"`
	// Result is the largest result kept; a larger one is kept as its length and hash.
	Result Size `yaml:"result" default:"1MiB" min:"0" max:"64MiB"`
	// Wait is the longest that a caller may wait for an answer before it gets a 202.
	Wait time.Duration `yaml:"wait" default:"30s" min:"0s" max:"1h"`
	// InFlight is how many calls this replica works on at once.
	InFlight int `yaml:"in_flight" default:"4096" min:"1" max:"1048576"`
}

// Retention says how long settled keys are kept. Each counts from settling.
type Retention struct {
	// Hot is how long Redis keeps a settled key; for hot tools it bounds the promise.
	Hot time.Duration `yaml:"hot" default:"24h" min:"1m" max:"87600h"`
	// Result is how long the store keeps arguments and result.
	Result time.Duration `yaml:"result" default:"720h" min:"1m" max:"876000h"`
	// Tombstone is how long the store remembers that the key was used at all. A call
	// repeated later than this acts again.
	Tombstone time.Duration `yaml:"tombstone" default:"9600h" min:"1m" max:"876000h"`
}

// Auth is who may ask.
type Auth struct {
	// Keys are the bearer keys. At least one is needed.
	Keys []Key `yaml:"keys"`
}

// Key is one bearer key.
type Key struct {
	// ID names the key in attempts and logs.
	ID string `yaml:"id"`
	// SHA256 is the hex SHA-256 of the key as sent after "Bearer ".
	SHA256 string `yaml:"sha256"`
	// Tenant is whose agents use this key.
	Tenant string `yaml:"tenant"`
	// Roles are agent (calls, reads), viewer (reads) and operator (reads, decides).
	Roles []string `yaml:"roles" oneof:"agent,viewer,operator"`
}

// Tracing says where spans go.
type Tracing struct {
	// OTLP sends spans to a collector. Default: they stay in this process.
	OTLP *OTLP `yaml:"otlp"`
	// Sample is the share of calls that are traced, 0 to 1.
	Sample float64 `yaml:"sample" default:"1.0" min:"0" max:"1"`
	// ConsoleLink is a trace viewer's address with {trace_id} in it. Default: no links.
	ConsoleLink string `yaml:"console_link"`
}

// OTLP is an OpenTelemetry collector.
type OTLP struct {
	// Endpoint is the collector's host:port.
	Endpoint string `yaml:"endpoint" default:"127.0.0.1:4317"`
	// Protocol is grpc or http.
	Protocol string `yaml:"protocol" default:"grpc" oneof:"grpc,http"`
	// Insecure speaks plain text to a collector that is not on this machine, as in a mesh
	// that encrypts. To this machine plain text is always spoken.
	Insecure bool `yaml:"insecure" default:"false"`
}

// Fault makes the gateway's own client behave as if an answer had been lost. The first
// four are shares of calls, 0 to 1.
type Fault struct {
	// AfterEffectTimeout performs the call, then acts as if no answer had come in time.
	AfterEffectTimeout float64 `yaml:"after_effect_timeout" default:"0" min:"0" max:"1"`
	// AfterEffectReset performs the call, then acts as if the connection had broken.
	AfterEffectReset float64 `yaml:"after_effect_reset" default:"0" min:"0" max:"1"`
	// AfterEffectTruncate performs the call, then acts as if the answer had broken off.
	AfterEffectTruncate float64 `yaml:"after_effect_truncate" default:"0" min:"0" max:"1"`
	// BeforeEffectRefuse acts as if the connection had been refused; nothing is sent.
	BeforeEffectRefuse float64 `yaml:"before_effect_refuse" default:"0" min:"0" max:"1"`
	// Delay is added to every call.
	Delay time.Duration `yaml:"delay" default:"0s" min:"0s" max:"1h"`
}
