package rig

import (
	"errors"
	"testing"
	"time"
)

// What was acknowledged is on the standby when it is promoted, and the old primary follows
// it afterwards.
func TestPostgresPairFailsOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	primary, standby, err := r.StartPostgresPair(t.Context())
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := primary.Exec(t.Context(), "CREATE TABLE kept (n int)", "INSERT INTO kept SELECT generate_series(1, 100)"); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		at := time.Now()
		primary.Kill()
		if err := standby.Promote(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("promoted after %s", time.Since(at))
		primary, standby = standby, primary
		if err := primary.Exec(t.Context(), "INSERT INTO kept SELECT generate_series(1, 100)"); err != nil {
			t.Fatal(err)
		}
		t.Logf("written after %s", time.Since(at))
		if err := standby.Follow(t.Context(), primary); err != nil {
			t.Fatal(err)
		}
		t.Logf("followed after %s", time.Since(at))
		if err := primary.Synchronous(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if err := primary.Exec(t.Context(), "INSERT INTO kept SELECT generate_series(1, 100)"); err != nil {
			t.Fatal(err)
		}
		var kept int
		if err := standby.query(t.Context(), "SELECT count(*) FROM kept", &kept); err != nil || kept != 100+200*(round+1) {
			t.Errorf("round %d: the standby has %d rows, %v", round, kept, err)
		}
	}
}
