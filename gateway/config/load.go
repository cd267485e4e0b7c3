package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Options steer Load and Parse. The zero value is right for production.
type Options struct {
	// AllowFaults accepts a faults section (--allow-faults).
	AllowFaults bool
	// Env looks up ${env:NAME}; nil: os.LookupEnv.
	Env func(name string) (string, bool)
	// ReadFile reads ${file:PATH}; nil: the file system, up to 1 MiB.
	ReadFile func(path string) ([]byte, error)
}

// maxFile bounds a config file, in bytes.
const maxFile = 16 << 20

// Load reads and checks the config file at path. A file that cannot be read is reported as
// Problems as well.
func Load(path string, opts Options) (*Config, []Warning, error) {
	data, err := readConfig(path)
	if err != nil {
		if inner, ok := errors.AsType[*os.PathError](err); ok {
			err = inner.Err
		}
		return nil, nil, Problems{{File: path, Message: "cannot be read: " + err.Error()}}
	}
	return Parse(path, data, opts)
}

func readConfig(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = errors.New("it is larger than 16 MiB")
	}
	return data, err
}

// Parse checks a config given as text; name stands for the file in problems, and its folder
// is where relative ${file:PATH} start. The error, if any, is Problems: everything that is
// wrong, sorted by line. Warnings come with a config that loads, and only then.
func Parse(name string, data []byte, opts Options) (*Config, []Warning, error) {
	if opts.Env == nil {
		opts.Env = os.LookupEnv
	}
	if opts.ReadFile == nil {
		opts.ReadFile = readIncluded
	}
	root, problem := parseSyntax(name, data)
	if problem != nil {
		return nil, nil, Problems{*problem}
	}
	d := decoder{file: name, opts: opts, lines: map[string]int{}}
	cfg := &Config{file: name, lines: d.lines}
	setDefaults(reflect.ValueOf(cfg).Elem())
	d.value(root, reflect.ValueOf(cfg).Elem(), "", "")
	cfg.secrets = d.secrets
	cfg.complete()

	c := checker{cfg: cfg, problems: d.problems}
	if d.visits < maxVisits && root.Kind == yaml.MappingNode {
		c.check(opts)
	}
	if len(c.problems) > 0 {
		return nil, nil, Problems(hideAll(sorted(c.problems), d.secrets))
	}
	warnings := make([]Warning, 0, len(c.warnings))
	for _, w := range hideAll(sorted(c.warnings), d.secrets) {
		warnings = append(warnings, Warning(w))
	}
	return cfg, warnings, nil
}

// complete fills in the defaults that depend on other fields or on the process.
func (c *Config) complete() {
	if c.Redis.Mode == "standalone" && c.Redis.Addrs == nil {
		c.Redis.Addrs = []string{"127.0.0.1:6379"}
	}
	if c.Notify != nil && c.Notify.Events == nil {
		c.Notify.Events = []string{"parked", "awaiting_approval", "doubt"}
	}
	if c.Replica == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "replica"
		}
		c.Replica = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
}

func hideAll(problems []Problem, secrets []secret) []Problem {
	secrets = slices.Clone(secrets)
	slices.SortFunc(secrets, func(a, b secret) int { return len(b.value) - len(a.value) }) // the longer one may hold the shorter
	for i := range problems {
		problems[i].Message = hide(problems[i].Message, secrets)
	}
	return problems
}
