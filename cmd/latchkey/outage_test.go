package main

import (
	"context"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// Whatever breaks, there are no extra effects, and the answers are those of the contract.

func TestRedisForgets(t *testing.T) {
	t.Parallel()
	s, redis, _ := newOwnSystem(t, 2)
	a, b := s.replicas[0], s.replicas[1]
	a.call("mail", "1").want(t, "first", 200, "completed", "never")
	for _, forget := range []func(){
		func() { redis.FlushAll(t) },
		func() { redis.Kill(); redis.Start(t) },
	} {
		forget()
		// b has never seen the key: Redis would let it act, the row does not.
		for again := range 3 {
			r := b.call("mail", "1")
			r.want(t, "after Redis forgot", 200, "completed", "never")
			if !r.receipt.Replayed {
				t.Errorf("call %d was not a replay", again)
			}
		}
	}
	s.ledger.want(t, 1)
}

// TestRedisForgetsWhileOneActs: the claim vanishes in the middle of the effect.
func TestRedisForgetsWhileOneActs(t *testing.T) {
	t.Parallel()
	s, redis, _ := newOwnSystem(t, 2)
	acting, release := make(chan struct{}), make(chan struct{})
	s.ledger.set(func(n int, _ http.ResponseWriter, _ *http.Request) bool {
		if n == 1 {
			close(acting)
		}
		<-release
		return false
	})
	first, second := make(chan reply, 1), make(chan reply, 1)
	go func() { first <- s.replicas[0].call("slow", "1") }()
	wait(t, "the effect", acting)
	redis.FlushAll(t)
	go func() { second <- s.replicas[1].call("slow", "1") }()
	time.Sleep(500 * time.Millisecond) // the second one finds the row and waits
	close(release)
	wait(t, "the first answer", first).want(t, "first", 200, "completed", "never")
	wait(t, "the second answer", second).want(t, "second", 200, "completed", "never")
	s.ledger.want(t, 1)
}

// TestRedisDown: durable tools go on with the store alone, hot ones are refused unsent.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	s, redis, _ := newOwnSystem(t, 2)
	a, b := s.replicas[0], s.replicas[1]
	a.call("mail", "1").want(t, "before", 200, "completed", "never")
	redis.Stop()
	a.call("mail", "1").want(t, "near cache", 200, "completed", "never")
	b.call("mail", "1").want(t, "from the row", 200, "completed", "never")
	a.call("mail", "2").want(t, "fresh", 200, "completed", "never")
	b.call("mail", "2").want(t, "duplicate", 200, "completed", "never")
	hot := a.once("note", "3")
	hot.want(t, "hot", 503, "", "same_key")
	if hot.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if res, err := http.Get(a.operators + "/readyz"); err != nil || res.StatusCode != 503 {
		t.Errorf("/readyz: %v, %v", res, err)
	}
	if res, err := http.Get(a.operators + "/livez"); err != nil || res.StatusCode != 200 {
		t.Errorf("/livez: %v, %v", res, err)
	}
	s.ledger.want(t, 2)
	redis.Start(t)
	time.Sleep(1500 * time.Millisecond) // how long a replica leaves a broken Redis alone
	a.call("note", "3").want(t, "hot again", 200, "completed", "never")
	b.call("mail", "2").want(t, "duplicate again", 200, "completed", "never")
	s.ledger.want(t, 3)
}

// TestRedisHangs: a Redis that accepts and never answers costs a time-out, no more.
func TestRedisHangs(t *testing.T) {
	t.Parallel()
	s, redis, _ := newOwnSystem(t, 2)
	redis.Pause()
	s.replicas[0].call("mail", "1").want(t, "fresh", 200, "completed", "never")
	s.replicas[1].call("mail", "1").want(t, "duplicate", 200, "completed", "never")
	redis.Resume()
	time.Sleep(1500 * time.Millisecond)
	s.replicas[0].call("mail", "1").want(t, "afterwards", 200, "completed", "never")
	s.ledger.want(t, 1)
}

// TestStoreDownBeforeTheEffect: nothing is sent, and the same call works once it is back.
func TestStoreDownBeforeTheEffect(t *testing.T) {
	t.Parallel()
	s, _, postgres := newOwnSystem(t, 1)
	p := s.replicas[0]
	p.call("mail", "1").want(t, "before", 200, "completed", "never")
	postgres.Stop(true)
	p.call("mail", "1").want(t, "replay", 200, "completed", "never")
	r := p.once("mail", "2")
	r.want(t, "fresh", 503, "", "same_key")
	if r.receipt.Code != "not_sent" || r.header.Get("Retry-After") == "" {
		t.Errorf("%s %v", r.body, r.header)
	}
	s.ledger.want(t, 1)
	if err := postgres.Start(); err != nil {
		t.Fatal(err)
	}
	p.call("mail", "2").want(t, "afterwards", 200, "completed", "never")
	s.ledger.want(t, 2)
}

// TestStoreDownAfterTheEffect: the caller gets the result marked as not durable; it is
// stored when the store is back, and nobody acts again meanwhile.
func TestStoreDownAfterTheEffect(t *testing.T) {
	t.Parallel()
	s, _, postgres := newOwnSystem(t, 2)
	s.ledger.set(func(n int, _ http.ResponseWriter, _ *http.Request) bool { postgres.Stop(true); return false })
	first := s.replicas[0].call("slow", "1")
	first.want(t, "first", 200, "completed", "never")
	if first.receipt.Durable {
		t.Error("durable, says the receipt, and the store is down")
	}
	other := s.replicas[1].call("slow", "1")
	other.want(t, "another replica", 200, "completed", "never")
	s.ledger.set(nil)
	if err := postgres.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		r := s.replicas[1].get("/v1/receipts/" + first.receipt.Key)
		if r.receipt.Status == "completed" && r.receipt.Durable {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not stored: %s\n%s", r.body, s.replicas[0].text())
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.ledger.want(t, 1)
}

// TestCallerGone: the caller hangs up after the request was sent. The effect is settled and
// its receipt says so.
func TestCallerGone(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 1)
	acting, release := make(chan struct{}), make(chan struct{})
	s.ledger.set(func(int, http.ResponseWriter, *http.Request) bool { close(acting); <-release; return false })
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for ctx.Err() == nil {
			if r, err := s.replicas[0].do(ctx, "key-a", "POST", "/v1/tools/slow/calls", callBody("1")); err != nil || r.code != 503 {
				return
			}
		}
	}()
	wait(t, "the effect", acting)
	hangUp()
	wait(t, "the caller", gone)
	close(release)
	s.replicas[0].call("slow", "1").want(t, "the same call again", 200, "completed", "never")
	s.ledger.want(t, 1)
}

// TestAnswerSlowerThanTheLease: a claim is renewed while its effect takes longer.
func TestAnswerSlowerThanTheLease(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 2) // the lease is 4 s
	acting, release := make(chan struct{}), make(chan struct{})
	s.ledger.set(func(int, http.ResponseWriter, *http.Request) bool { close(acting); <-release; return false })
	first, second := make(chan reply, 1), make(chan reply, 1)
	go func() { first <- s.replicas[0].call("slow", "1") }()
	wait(t, "the effect", acting)
	time.Sleep(6 * time.Second)
	s.replicas[1].call("slow", "1", "Prefer", "wait=0").want(t, "meanwhile", 202, "started", "same_key")
	go func() { second <- s.replicas[1].call("slow", "1") }()
	close(release)
	wait(t, "the first answer", first).want(t, "first", 200, "completed", "never")
	wait(t, "the second answer", second).want(t, "a duplicate that waits", 200, "completed", "never")
	s.ledger.want(t, 1)
}

// TestAnswerSlowerThanTheTool: sent and not answered in time is unknown, and stays so.
func TestAnswerSlowerThanTheTool(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 2)
	s.ledger.set(func(int, http.ResponseWriter, *http.Request) bool { time.Sleep(1500 * time.Millisecond); return false })
	for _, p := range []*server{s.replicas[0], s.replicas[1], s.replicas[0]} {
		r := p.call("brief", "1")
		r.want(t, "timed out", 202, "unknown", "never")
		if r.header.Get("X-Should-Retry") != "false" || r.header.Get("Location") == "" {
			t.Errorf("%v", r.header)
		}
	}
	s.ledger.want(t, 1)
}

// TestOwnerKilled: a replica dies in the middle of the effect. Nobody acts again; once the
// lease has run out the key is unknown.
func TestOwnerKilled(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 2)
	acting := make(chan struct{})
	s.ledger.set(func(int, http.ResponseWriter, *http.Request) bool {
		close(acting)
		time.Sleep(3 * time.Second)
		return false
	})
	go func() { // until it is killed
		for t.Context().Err() == nil {
			if r, err := s.replicas[0].do(t.Context(), "key-a", "POST", "/v1/tools/slow/calls", callBody("1")); err != nil || r.code != 503 {
				return
			}
		}
	}()
	wait(t, "the effect", acting)
	s.replicas[0].cmd.Process.Kill()
	s.replicas[1].call("slow", "1").want(t, "a duplicate that waited", 202, "unknown", "never")
	s.ledger.want(t, 1)
}

// TestOrderlyEnd: SIGTERM in the middle of an effect: its caller still gets the result.
func TestOrderlyEnd(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 1)
	p := s.replicas[0]
	acting, release := make(chan struct{}), make(chan struct{})
	s.ledger.set(func(int, http.ResponseWriter, *http.Request) bool { close(acting); <-release; return false })
	first := make(chan reply, 1)
	go func() { first <- p.call("slow", "1") }()
	wait(t, "the effect", acting)
	p.cmd.Process.Signal(syscall.SIGTERM)
	for {
		res, err := http.Get(p.operators + "/readyz")
		if err != nil {
			t.Fatalf("the operators' listener closed before the calls were over: %v", err)
		}
		res.Body.Close()
		if res.StatusCode == http.StatusServiceUnavailable {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	close(release)
	wait(t, "the first answer", first).want(t, "first", 200, "completed", "never")
	wait(t, "the end of the process", p.ended)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.text())
	}
	s.ledger.want(t, 1)
}
