package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
	"github.com/latchkey-gateway/latchkey/intentstore/intentstoretest"
	"github.com/latchkey-gateway/latchkey/intentstore/sqlite"
)

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func started(n int) intent.Receipt {
	return intent.Receipt{
		Key: intent.Key{byte(n), byte(n >> 8), byte(n >> 16), 31: 1}, Guard: intent.Guard{byte(n), byte(n >> 8), byte(n >> 16), 31: 1},
		Fingerprint: intent.Fingerprint{1}, ClaimID: intent.ClaimID{1}, Tenant: "acme", Class: intent.Effectful, Durability: intent.Durable,
		Args: []byte(`{}`), Status: intent.Started, Retry: intent.RetrySameKey, Fence: 1, Version: 1, Executions: 1, CreatedAt: at, StartedAt: at,
	}
}

func done(r intent.Receipt) intent.Settlement {
	return r.CompleteMove("downstream", &intent.Outcome{HTTPStatus: 200, Body: []byte("done")}, at)
}

// childEnv makes this test binary a process that writes to the file it names until it is
// killed, and says which rows were acknowledged.
const childEnv = "LATCHKEY_TEST_SQLITE_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		write(path)
	}
	os.Exit(m.Run())
}

func write(path string) {
	s, err := sqlite.Open(context.Background(), sqlite.Options{Path: path})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := 0; ; i++ {
				r := started(i*8 + worker)
				if b, err := s.Begin(context.Background(), r); err != nil || !b.Mine {
					continue
				}
				os.Stdout.WriteString("begun " + strconv.Itoa(i*8+worker) + "\n")
				if _, err := s.Settle(context.Background(), done(r)); err == nil {
					os.Stdout.WriteString("done " + strconv.Itoa(i*8+worker) + "\n")
				}
			}
		})
	}
	all.Wait()
}

// TestKilled kills the process that writes, in the middle of it. What it had said to be
// durable must be there.
func TestKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "intents.db")
	for round := range 3 {
		child := exec.Command(os.Args[0], "-test.run=^$")
		child.Env = append(os.Environ(), childEnv+"="+path)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		begun, settled := map[int]bool{}, map[int]bool{}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			word, number, _ := strings.Cut(lines.Text(), " ")
			n, err := strconv.Atoi(number)
			if err != nil {
				t.Fatalf("the child says %q", lines.Text())
			}
			if begun[n] = true; word == "done" {
				settled[n] = true
			}
			if len(settled) == 100*(round+1) {
				child.Process.Kill() // and read on: acknowledgements under way count as well
			}
		}
		child.Wait()
		s := open(t, path)
		for n := range begun {
			row, err := s.Get(t.Context(), started(n).Key)
			if err != nil || settled[n] && row.Status != intent.Completed {
				t.Errorf("row %d was begun, settled %v, and is %s, %v", n, settled[n], row.Status, err)
			}
		}
		if err := s.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestBadRowAmongGood makes the file refuse one row that the checks let through.
func TestBadRowAmongGood(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "intents.db")
	batches := make(chan int, 100)
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, OnBatch: func(n int) { batches <- n }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.Exec(`CREATE TRIGGER bad BEFORE INSERT ON intents WHEN NEW.run_id = 'bad' BEGIN SELECT RAISE(ABORT, 'bad'); END`)
	if err != nil {
		t.Fatal(err)
	}
	blocker, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blocker.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	begin := func(n int) {
		all.Go(func() {
			r := started(n)
			if n == 13 {
				r.RunID = "bad"
			}
			b, err := s.Begin(t.Context(), r)
			if n != 13 && (err != nil || !b.Mine) || n == 13 && err == nil {
				t.Errorf("Begin %d: mine %v, %v", n, b.Mine, err)
			}
		})
	}
	begin(0) // waits for the file while the others gather
	if n := <-batches; n != 1 {
		t.Fatalf("the first batch has %d rows", n)
	}
	for n := 1; n < 20; n++ {
		begin(n)
	}
	for s.Pending() < 19 {
		runtime.Gosched()
	}
	if _, err := blocker.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if n := <-batches; n != 19 {
		t.Errorf("the second batch has %d rows, want the 19 that had gathered", n)
	}
	for n := range 20 {
		if _, err := s.Get(t.Context(), started(n).Key); (err == nil) != (n != 13) {
			t.Errorf("Get %d: %v", n, err)
		}
	}
}

// TestReopened replays from a file that another process has closed.
func TestReopened(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "intents.db")
	if err := sqlite.Migrate(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	r := started(1)
	var want intent.Receipt
	for i := range 3 {
		s := open(t, path)
		if i == 0 {
			if b, err := s.Begin(t.Context(), r); err != nil || !b.Mine {
				t.Fatalf("Begin: mine %v, %v", b.Mine, err)
			}
			var err error
			if want, err = s.Settle(t.Context(), done(r)); err != nil {
				t.Fatal(err)
			}
		}
		row, err := s.Get(t.Context(), r.Key)
		if err != nil || row.Version != want.Version || !intentstore.SameOutcome(row.Outcome, want.Outcome) {
			t.Errorf("opened %d times: %+v, %v", i+1, row, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(path, "no", "such")}); err == nil {
		t.Error("a path that cannot be gives no error")
	}
}

func BenchmarkBeginSettle(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			intentstoretest.Benchmark(b, open(b, filepath.Join(b.TempDir(), "intents.db")), callers, nil)
		})
	}
}
