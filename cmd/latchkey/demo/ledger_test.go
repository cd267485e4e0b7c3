package demo_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/latchkey-gateway/latchkey/cmd/latchkey/demo"
)

// invoice is an email of its own business id.
func invoice(n int) string { return fmt.Sprintf(`{"invoice_id":"inv-%d","to":"a@example.com"}`, n) }

func TestTheRingForgetsAndTheTotalsDoNot(t *testing.T) {
	t.Parallel()
	w := start(t, demo.Options{Capacity: 3})
	for i := range 7 {
		w.must(200, "POST", "/emails", fmt.Sprintf("k%d", i), invoice(i))
	}
	w.must(200, "POST", "/emails", "k6", invoice(6))
	l := w.ledger("")
	if l.Totals != (demo.Totals{Effects: 8, Repeated: 1}) || l.Matched != 3 {
		t.Errorf("totals %+v, kept %d; want 8 effects, 1 repeated, 3 kept", l.Totals, l.Matched)
	}
	for i, e := range l.Effects {
		if e.Seq != int64(8-i) {
			t.Errorf("effect %d has number %d: newest first", i, e.Seq)
		}
	}
	if l.Effects[0].Count != 2 || l.Effects[1].Count != 1 {
		t.Errorf("counts %d and %d, want 2 and 1", l.Effects[0].Count, l.Effects[1].Count)
	}
	// What is forgotten counts from 1 again: memory is bounded by the ring.
	w.must(200, "POST", "/emails", "k0", invoice(0))
	if l := w.ledger("?limit=1"); l.Effects[0].Count != 1 || len(l.Effects) != 1 || l.Matched != 3 {
		t.Errorf("%+v, want one of three listed, counted from 1", l)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	w := start(t, demo.Options{})
	w.must(200, "POST", "/emails", "k1", invoice(1))
	w.must(200, "POST", "/emails", "k2", invoice(1))
	w.must(201, "POST", "/charges", "k1", card)
	for query, want := range map[string]int{
		"": 3, "?service=emails": 2, "?service=transfers": 0, "?key=k1": 2, "?key=k1&service=charges": 1,
		"?business_id=inv-1": 3, "?business_id=inv-1&key=k2": 1, "?key=k3": 0,
	} {
		l := w.ledger(query)
		if l.Matched != want || len(l.Effects) != want {
			t.Errorf("%q matched %d and listed %d, want %d", query, l.Matched, len(l.Effects), want)
		}
		if l.Totals.Effects != 3 {
			t.Errorf("%q: a filter changed the totals to %+v", query, l.Totals)
		}
	}
}

func TestWithoutAKeyTheBusinessIDCounts(t *testing.T) {
	t.Parallel()
	w := start(t, demo.Options{})
	w.must(200, "POST", "/emails", "", invoice(1))
	w.must(200, "POST", "/emails", "", invoice(2))
	w.must(200, "POST", "/emails", "", invoice(1))
	l := w.ledger("")
	if got := [3]int{l.Effects[2].Count, l.Effects[1].Count, l.Effects[0].Count}; got != [3]int{1, 1, 2} {
		t.Errorf("counts %v, want [1 1 2]", got)
	}
}

func TestARestartedDemoKnowsItsEffects(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	w := start(t, demo.Options{LedgerFile: path})
	sent := w.must(200, "POST", "/emails", "k1", email)
	charged := w.must(201, "POST", "/charges", "k1", card)
	w.must(200, "PUT", "/contacts/c-1", "k1", closeAda)
	w.must(201, "POST", "/faults", "", `{"service":"transfers","mode":"lose_answer"}`)
	if _, _, err := w.do("POST", "/transfers", "k1", wire); err == nil {
		t.Fatal("the answer was not lost")
	}
	before := w.ledger("")

	w2 := start(t, demo.Options{LedgerFile: path})
	after := w2.ledger("")
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("before\n%+v\nafter\n%+v", before, after)
	}
	if got := w2.must(200, "GET", "/emails?reference=k1", "", ""); !strings.Contains(got, strings.TrimSpace(sent)) {
		t.Errorf("lookup: %s", got)
	}
	if got := w2.must(201, "POST", "/charges", "k1", card); got != charged {
		t.Errorf("the charger forgot a key: %s", got)
	}
	if got := w2.must(200, "GET", "/contacts/c-1", "", ""); !strings.Contains(got, `"closed"`) {
		t.Errorf("contact: %s", got)
	}
	w2.must(200, "POST", "/emails", "k1", email)
	if l := w2.ledger("?key=k1&service=emails"); l.Effects[0].Count != 2 || l.Effects[0].Seq != 5 {
		t.Errorf("next effect %+v, want number 5 and count 2", l.Effects[0])
	}
	w2.must(204, "DELETE", "/ledger", "", "")
	w2.must(200, "POST", "/emails", "k9", email)
	if l := start(t, demo.Options{LedgerFile: path}).ledger(""); l.Totals.Effects != 1 || l.Effects[0].Key != "k9" {
		t.Errorf("after DELETE and restart: %+v", l)
	}
}

func TestLedgerFiles(t *testing.T) {
	t.Parallel()
	line := func(seq int) string {
		return fmt.Sprintf(`{"seq":%d,"service":"emails","business_id":"i","key":"k","at":"2026-01-02T03:04:05Z","count":1,"record":{}}`+"\n", seq)
	}
	for _, c := range []struct {
		name, content string
		effects       int64 // -1: refused
		rest          string
	}{
		{"empty", "", 0, ""},
		{"whole", line(1) + line(2), 2, line(1) + line(2)},
		{"torn last line", line(1) + line(2)[:30], 1, line(1)},
		{"whole line without its end", line(1) + strings.TrimSpace(line(2)), 1, line(1)},
		{"another file", "# notes\n", -1, "# notes\n"},
		{"damaged in the middle", line(1) + "x\n" + line(2), -1, line(1) + "x\n" + line(2)},
		{"a line is missing", line(1) + line(3), -1, line(1) + line(3)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ledger.jsonl")
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := demo.New(demo.Options{LedgerFile: path})
			if (err != nil) != (c.effects < 0) {
				t.Fatalf("New: %v", err)
			}
			if err == nil {
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				if l := start(t, demo.Options{LedgerFile: path}).ledger(""); l.Totals.Effects != c.effects {
					t.Errorf("%d effects, want %d", l.Totals.Effects, c.effects)
				}
			}
			if rest, err := os.ReadFile(path); err != nil || string(rest) != c.rest {
				t.Errorf("the file holds %q (%v), want %q", rest, err, c.rest)
			}
		})
	}
}

// A change that cannot be recorded is not made.
func TestAClosedDemoDoesNothing(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]demo.Options{"memory": {}, "file": {LedgerFile: filepath.Join(t.TempDir(), "l.jsonl")}} {
		w := start(t, o)
		if err := w.demo.Close(); err != nil {
			t.Fatal(err)
		}
		w.must(500, "PUT", "/contacts/c-1", "", closeAda)
		w.must(500, "POST", "/emails", "", email)
		if got := w.must(200, "GET", "/contacts/c-1", "", ""); strings.Contains(got, "closed") {
			t.Errorf("%s: the contact changed: %s", name, got)
		}
		if l := w.ledger(""); l.Totals.Effects != 0 {
			t.Errorf("%s: %+v", name, l)
		}
	}
}
