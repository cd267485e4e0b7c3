package demo_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/latchkey-gateway/latchkey/cmd/latchkey/demo"
)

func TestFaultsOfAnEffect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode    demo.Mode
		status  int
		err     error // any of these or nil
		effects int64
	}{
		{demo.LoseAnswer, 0, io.EOF, 1},
		{demo.Reset, 0, syscall.ECONNRESET, 1},
		{demo.Error500, 500, nil, 1},
		{demo.Truncate, 200, io.ErrUnexpectedEOF, 1},
		{demo.Refuse, 429, nil, 0},
	} {
		t.Run(string(c.mode), func(t *testing.T) {
			t.Parallel()
			w := start(t, demo.Options{})
			w.must(201, "POST", "/faults", "", fmt.Sprintf(`{"service":"emails","mode":%q}`, c.mode))
			w.must(201, "POST", "/charges", "k0", card) // another service: not its fault
			status, answer, err := w.do("POST", "/emails", "k1", email)
			if status != c.status || !errors.Is(err, c.err) {
				t.Errorf("got %d, %q, %v; want %d and %v", status, answer, err, c.status, c.err)
			}
			if l := w.ledger("?service=emails"); l.ByService[demo.Emails].Effects != c.effects {
				t.Errorf("%+v, want %d effects", l, c.effects)
			} else if c.effects == 1 && l.Effects[0].Fault != c.mode {
				t.Errorf("the ledger says fault %q", l.Effects[0].Fault)
			}
			w.must(200, "POST", "/emails", "k2", email) // used up
		})
	}
}

func TestFaultsOfQuestions(t *testing.T) {
	t.Parallel()
	w := start(t, demo.Options{})
	for _, c := range []struct{ service, path string }{
		{demo.Search, "/contacts?q=ada"}, {demo.Search, "/contacts/c-1"},
		{demo.Lookups, "/emails?reference=k"}, {demo.Lookups, "/contacts/c-1/notes"},
	} {
		for mode, status := range map[demo.Mode]int{demo.Error500: 500, demo.Refuse: 429} {
			w.must(201, "POST", "/faults", "", fmt.Sprintf(`{"service":%q,"mode":%q}`, c.service, mode))
			w.must(status, "GET", c.path, "", "")
			w.must(200, "GET", c.path, "", "")
		}
	}
}

func TestFaultsAreTakenInOrder(t *testing.T) {
	t.Parallel()
	w := start(t, demo.Options{})
	w.must(201, "POST", "/faults", "", `{"service":"emails","mode":"error_500","times":2}`)
	w.must(201, "POST", "/faults", "", `{"service":"emails","mode":"refuse"}`)
	if got := w.must(200, "GET", "/faults", "", ""); !strings.Contains(got, `"times":2`) || !strings.Contains(got, "refuse") {
		t.Errorf("armed: %s", got)
	}
	for _, status := range []int{500, 500, 429, 200} {
		w.must(status, "POST", "/emails", "", email)
	}
	w.must(201, "POST", "/faults", "", `{"service":"emails","mode":"refuse"}`)
	w.must(204, "DELETE", "/faults", "", "")
	w.must(200, "POST", "/emails", "", email)
}

func TestFaultsThatCannotBe(t *testing.T) {
	t.Parallel()
	w := start(t, demo.Options{})
	for body, status := range map[string]int{
		`{"service":"mail","mode":"reset"}`:                      422,
		`{"service":"emails","mode":"explode"}`:                  422,
		`{"service":"emails","mode":"reset","times":-1}`:         422,
		`{"service":"emails","mode":"slow","delay":"soon"}`:      422,
		`{"service":"emails","mode":"slow","delay":"11m"}`:       422,
		`{"service":"emails","mode":"slow","delay":"-1s"}`:       422,
		`{"service":"emails","mode":"reset","times":"two"}`:      400,
		`{"service":"emails","mode":"refuse","times":1} trailer`: 201, // what follows the object is not read
	} {
		w.must(status, "POST", "/faults", "", body)
	}
	w.must(204, "DELETE", "/faults", "", "")
	for range 1000 {
		w.must(201, "POST", "/faults", "", `{"service":"emails","mode":"refuse"}`)
	}
	w.must(507, "POST", "/faults", "", `{"service":"emails","mode":"refuse"}`)
}

func TestAMemoCanAskForALostAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, path, body string
		status           int // of the second request; 0: it is lost as well
		effects          int64
	}{
		{"mailer", "/emails", strings.Replace(email, "hello", "please [lose the answer]", 1), 0, 2},
		{"charger", "/charges", strings.Replace(card, "{", `{"memo":"[lose the answer]",`, 1), 201, 1},
		{"wire", "/transfers", strings.Replace(wire, "{", `{"memo":"[lose the answer]",`, 1), 0, 2},
		{"notes", "/contacts/c-1/notes", `{"text":"[lose the answer]"}`, 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := start(t, demo.Options{})
			if _, answer, err := w.do("POST", c.path, "k1", c.body); err == nil {
				t.Fatalf("the first answer was not lost: %q", answer)
			}
			if l := w.ledger("?key=k1"); l.Matched != 1 || l.Effects[0].Fault != demo.LoseAnswer {
				t.Fatalf("after the first request: %+v", l)
			}
			status, answer, err := w.do("POST", c.path, "k1", c.body)
			if status != c.status || (err != nil) != (c.status == 0) {
				t.Errorf("second request: %d, %q, %v; want %d", status, answer, err, c.status)
			}
			if l := w.ledger("?key=k1"); l.Totals.Effects != c.effects {
				t.Errorf("%d effects, want %d", l.Totals.Effects, c.effects)
			}
		})
	}
}

// A slow answer is held back by exactly its delay, after the effect.
func TestSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, err := demo.New(demo.Options{})
		if err != nil {
			t.Fatal(err)
		}
		serve := func(method, path, body string) *httptest.ResponseRecorder {
			rec := httptest.NewRecorder()
			d.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
			return rec
		}
		for delay, want := range map[string]time.Duration{`"90s"`: 90 * time.Second, `""`: 2 * time.Second} {
			serve("POST", "/faults", `{"service":"emails","mode":"slow","delay":`+delay+`}`)
			began := time.Now()
			done := make(chan struct{})
			go func() {
				defer close(done)
				if rec := serve("POST", "/emails", email); rec.Code != 200 {
					t.Errorf("slow answer: %d", rec.Code)
				}
			}()
			synctest.Wait()
			var l demo.Ledger
			if err := json.Unmarshal(serve("GET", "/ledger", "").Body.Bytes(), &l); err != nil || len(l.Effects) == 0 || l.Effects[0].Fault != demo.Slow {
				t.Errorf("while the answer is held back: %+v, %v", l, err)
			}
			<-done
			if took := time.Since(began); took != want {
				t.Errorf("delay %s took %v, want %v", delay, took, want)
			}
		}

		// Close does not wait for an answer that is being held back.
		serve("POST", "/faults", `{"service":"emails","mode":"slow","delay":"10m"}`)
		began := time.Now()
		done := make(chan any)
		go func() {
			defer func() { done <- recover() }()
			serve("POST", "/emails", email)
		}()
		synctest.Wait()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if aborted := <-done; aborted == nil || time.Since(began) != 0 {
			t.Errorf("after Close the held answer ended with %v after %v", aborted, time.Since(began))
		}
	})
}
