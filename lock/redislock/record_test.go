package redislock

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
)

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	for status := intent.AwaitingApproval; status <= intent.Rejected; status++ {
		for _, r := range []lock.Record{
			{},
			{Durable: true, Fence: maxFence, Retry: intent.RetryCorrected, Traceparent: strings.Repeat("t", maxTraceparent)},
			{Hot: true, Fence: 12, Traceparent: "00-a-b-01", Receipt: []byte("\x00\xff")},
			{Hot: true, Durable: true, Retry: intent.RetrySameKey, Receipt: bytes.Repeat([]byte("r"), 1<<16)},
		} {
			r.Status = status
			for i := range r.Key {
				r.Guard[i], r.Key[i], r.Fingerprint[i] = byte(i), byte(255-i), byte(i*7)
			}
			copy(r.ClaimID[:], "0123456789\r\n\x00{}x")
			b := packed(t, r)
			got, err := parseRecord(r.Guard, string(b), 1500)
			if err != nil {
				t.Fatal(err)
			}
			if status == intent.Started { // the deadline is zero until the script puts it in
				if got.Lease != -1500*time.Millisecond {
					t.Errorf("lease is %v", got.Lease)
				}
				got.Lease = 0
			}
			if again := packed(t, got); !bytes.Equal(again, b) || got.Guard != r.Guard {
				t.Errorf("%+v came back as %+v", r, got)
			}
		}
	}
}

func TestRecordRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	for _, r := range []lock.Record{{Fence: maxFence + 1}, {Status: intent.Rejected + 1}, {Retry: intent.RetryCorrected + 1}} {
		if _, err := appendState(&r); err == nil {
			t.Errorf("%+v was packed", r)
		}
	}
	r := lock.Record{Status: intent.Unknown, Traceparent: strings.Repeat("t", maxTraceparent+1), Receipt: []byte("kept")}
	got, err := parseRecord(r.Guard, string(packed(t, r)), 0)
	if err != nil || got.Traceparent != "" || string(got.Receipt) != "kept" {
		t.Errorf("an overlong traceparent: %+v, %v", got, err)
	}
}

func FuzzParseRecord(f *testing.F) {
	started := lock.Record{Status: intent.Started, Fence: 1, Traceparent: "00-a-b-01"}
	b, _ := appendState(&started)
	for n := range b {
		f.Add(string(b[:n]))
	}
	done := lock.Record{Status: intent.Completed, Fence: 2, Receipt: []byte("r")}
	b, _ = appendState(&done)
	f.Add(string(b))
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseRecord(intent.Guard{}, s, 0)
		if err != nil {
			if !errors.Is(err, errRecord) {
				t.Fatal(err)
			}
			return
		}
		if r.Fence > maxFence {
			t.Fatalf("fence %d of 15 digits", r.Fence)
		}
	})
}

func TestMillisRoundsUp(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, time.Hour: 3600000} {
		if got := millis(d); got != want {
			t.Errorf("%v is %d ms, want %d", d, got, want)
		}
	}
}
