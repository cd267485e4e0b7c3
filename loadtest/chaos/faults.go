package chaos

import (
	"context"
	"math/rand/v2"
	"syscall"
	"time"
)

// kill ends a replica at once and starts it again.
func (d *director) kill(ctx context.Context, rng *rand.Rand) error {
	victim := d.Replicas[rng.IntN(len(d.Replicas))]
	down := between(rng, 50*time.Millisecond, 1500*time.Millisecond)
	d.did("kill", victim.Name, down, "SIGKILL")
	return d.killReplica(ctx, victim, down)
}

// nap puts a replica to sleep, mostly past its leases. It wakes up as if nothing had been.
func (d *director) nap(ctx context.Context, rng *rand.Rand) error {
	victim := d.Replicas[rng.IntN(len(d.Replicas))]
	length := between(rng, Lease/2, 3*Lease)
	d.did("stop", victim.Name, length, "SIGSTOP")
	d.replicas.Lock()
	asleep := victim.Gateway
	err := asleep.Signal(syscall.SIGSTOP)
	d.replicas.Unlock()
	if err != nil {
		return err
	}
	sleep(ctx, length)
	return asleep.Signal(syscall.SIGCONT) // nil when it was killed meanwhile
}

// killReplica kills a replica and starts it again.
func (d *director) killReplica(ctx context.Context, p *Replica, down time.Duration) error {
	d.replicas.Lock()
	defer d.replicas.Unlock()
	p.Kill()
	sleep(ctx, down)
	again, err := d.rig.RelaunchGateway(p.Gateway)
	if err != nil {
		return err
	}
	p.Gateway = again
	// It may take its time while a store is away; the next fault does not wait for it.
	return nil
}

var linkFaults = []struct {
	name  string
	state State
	share int
}{{"cut", Cut, 4}, {"stall", Stall, 3}, {"deaf", Deaf, 5}}

// linkFault breaks one link of one replica.
func (d *director) linkFault(ctx context.Context, rng *rand.Rand) error {
	p := d.Replicas[rng.IntN(len(d.Replicas))]
	names := []string{"target", "redis", d.primaryName(), "target", "redis", d.primaryName(), "postgres-1", "postgres-2"}
	name := names[rng.IntN(len(names))]
	k := p.Links[name]
	if k == nil {
		name = "target"
		k = p.Links[name]
	}
	at := rng.IntN(12)
	for _, f := range linkFaults {
		if at -= f.share; at >= 0 {
			continue
		}
		length := between(rng, 30*time.Millisecond, 2500*time.Millisecond)
		d.did(f.name, p.Name+" to "+name, length, "")
		if err := k.Turn(f.state); err != nil {
			return err
		}
		sleep(ctx, length)
		return k.Turn(Open)
	}
	return nil
}
