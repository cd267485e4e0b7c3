package redislock

import (
	"strings"
	"testing"
)

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"no address":        {},
		"not one of":        {Mode: "ring", Addrs: []string{"a:1"}},
		"takes one address": {Addrs: []string{"a:1", "b:1"}},
		"master's name":     {Mode: Sentinel, Addrs: []string{"a:1"}},
		"means sentinel":    {MasterName: "m", Addrs: []string{"a:1"}},
		"database 0":        {Mode: Cluster, DB: 1, Addrs: []string{"a:1"}},
		"braces":            {Prefix: "a{b}", Addrs: []string{"a:1"}},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}
