package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// embeddedRedis is a Redis inside this process. It forgets everything when the process
// ends, which costs nothing but speed: the store is the arbiter.
type embeddedRedis struct {
	server *miniredis.Miniredis
	once   sync.Once
	done   chan struct{}
	clock  sync.WaitGroup
}

func startEmbeddedRedis() (*embeddedRedis, error) {
	server, err := miniredis.Run() // on a free loopback port
	if err != nil {
		return nil, fmt.Errorf("embedded redis: %w", err)
	}
	r := &embeddedRedis{server: server, done: make(chan struct{})}
	r.clock.Go(r.drive)
	return r, nil
}

func (r *embeddedRedis) addr() string { return r.server.Addr() }

// drive makes keys expire: miniredis leaves its clock to whoever embeds it.
func (r *embeddedRedis) drive() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-r.done:
			return
		case now := <-tick.C:
			r.server.FastForward(now.Sub(last))
			last = now
		}
	}
}

func (r *embeddedRedis) stop() {
	r.once.Do(func() {
		close(r.done)
		r.clock.Wait()
		r.server.Close()
	})
}
