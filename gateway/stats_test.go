package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"testing"
	"time"
)

type stats struct {
	Since, Until time.Time
	Step         string
	Counts       []struct {
		At               time.Time
		Tool, Kind, Word string
		N                int64
	}
	Totals map[string]map[string]int64
	Open   []struct {
		Tool, What    string
		N             int64
		OldestAt      time.Time `json:"oldest_at"`
		OldestSeconds *int64    `json:"oldest_seconds"`
	}
}

func (r *replica) stats(credential, query string) stats {
	r.w.Helper()
	got := r.do("GET", r.operators.URL+"/v1/stats"+query, credential, "")
	var s stats
	if err := json.Unmarshal(got.body, &s); err != nil || got.code != 200 {
		r.w.Fatalf("HTTP %d: %s", got.code, got.body)
	}
	return s
}

func TestStats(t *testing.T) {
	t.Parallel()
	_, a := oneReplica(t)
	for range 3 {
		a.call("mail", `{"id":1}`).completed()
	}
	key, etag := a.unknown("mail", "2")
	a.unknown("mail", "3")
	a.as(acme, "wire", callBody("4", `{}`)).receipt(202, "awaiting_approval", "never")
	a.decide(operator, key, "resolve", `{"outcome":"completed","reason":"x"}`, "If-Match: "+etag).decided("completed")
	a.flush(key)
	s := a.stats(viewer, "")
	if n := s.Totals["attempt"]; n["executed"] != 3 || n["replayed"] != 2 || n["pending"] != 1 || s.Totals["audit"]["resolve"] != 1 || s.Totals["execution"]["unknown"] != 2 {
		t.Errorf("%v", s.Totals)
	}
	var sum int64
	for _, c := range s.Counts {
		if sum += c.N; c.At.Before(s.Since.Add(-time.Hour)) || c.At.After(s.Until) || c.Tool == "" {
			t.Errorf("%+v", c)
		}
	}
	var open []string
	for _, o := range s.Open {
		open = append(open, fmt.Sprint(o.Tool, " ", o.What, " ", o.N))
		if o.OldestSeconds == nil || *o.OldestSeconds > 60 || time.Since(o.OldestAt) > time.Minute {
			t.Errorf("%+v", o)
		}
	}
	if fmt.Sprint(open) != "[mail parked 1 mail unknown 1 wire awaiting_approval 1]" {
		t.Errorf("%v", open)
	}
	if s.Until.Sub(s.Since) != 24*time.Hour || s.Step != "15m0s" {
		t.Errorf("%v to %v, step %s", s.Since, s.Until, s.Step)
	}
	if s := a.stats(globex, ""); len(s.Counts) != 0 || len(s.Open) != 0 {
		t.Errorf("another tenant sees %+v", s)
	}
	past := "?since=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z&step=1h"
	if s := a.stats(viewer, past); len(s.Counts) != 0 || len(s.Open) != 3 || s.Step != "1h0m0s" {
		t.Errorf("%+v", s)
	}
	for _, query := range []string{"?step=30s", "?step=90s", "?step=x", "?since=x", "?since=2020-01-01T00:00:00Z&step=1m", "?steps=1h",
		"?since=" + url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339)), "?until=" + url.QueryEscape("yesterday")} {
		a.do("GET", a.operators.URL+"/v1/stats"+query, viewer, "").problem(400, "bad_request", "corrected")
	}
}
