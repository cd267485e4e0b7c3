package intentstoretest

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Checks compares the words in the CHECK constraints of a folder of migrations with the
// words of package intent and with its table of moves. What a constraint says last counts.
func Checks(t *testing.T, migrations fs.FS) {
	t.Helper()
	files, err := fs.Glob(migrations, "*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	slices.Sort(files)
	var sql strings.Builder
	for _, f := range files {
		text, err := fs.ReadFile(migrations, f)
		if err != nil {
			t.Fatal(err)
		}
		sql.Write(text)
	}
	words := func(constraint, column string) []string {
		t.Helper()
		m := regexp.MustCompile(constraint+`\b[^\n]*?CHECK\b[^\n]*?`+column+` (?:NOT )?IN \(([^)]*)\)`).FindAllStringSubmatch(sql.String(), -1)
		if m == nil {
			t.Fatalf("no list of %s in a CHECK of %s", column, constraint)
		}
		list := strings.Split(m[len(m)-1][1], ", ")
		for i := range list {
			list[i] = strings.Trim(list[i], "' ")
		}
		slices.Sort(list)
		return list
	}
	same := func(what string, got, want []string) {
		t.Helper()
		want = slices.Sorted(slices.Values(want))
		if want = slices.Compact(want); !slices.Equal(got, want) {
			t.Errorf("%s: the CHECK says %v, the code %v", what, got, want)
		}
	}
	same("class", words("intents_class", "class"), all[intent.Class]())
	same("durability", words("intents_durability", "durability"), all[intent.Durability]())
	same("status", words("intents_status", "status"), all[intent.Status]())
	same("retry", words("intents_retry", "retry"), all[intent.Retry]())

	// Follow the moves to what each status may look like.
	type state struct {
		status   intent.Status
		executed bool // an execution was begun
	}
	var reached []state
	reach := func(s state) bool {
		if slices.Contains(reached, s) {
			return false
		}
		reached = append(reached, s)
		return true
	}
	var settled, superseded []string
	for changed := true; changed; {
		changed = false
		for _, m := range intent.Moves {
			from := []state{{}}
			if len(m.From) > 0 {
				from = slices.DeleteFunc(slices.Clone(reached), func(s state) bool { return !slices.Contains(m.From, s.status) })
			}
			for _, s := range from {
				if m.NewFence && s.executed {
					superseded = append(superseded, s.status.String())
				}
				changed = reach(state{m.To, s.executed || m.To == intent.Started}) || changed
			}
			if m.To.Settled() {
				settled = append(settled, m.To.String())
			}
		}
	}
	var started, waiting []string
	for _, s := range reached {
		if s.executed && !slices.Contains(reached, state{s.status, false}) {
			started = append(started, s.status.String())
		}
		if !s.status.Settled() && s.status != intent.Started {
			waiting = append(waiting, s.status.String())
		}
	}
	same("statuses that were started", words("intents_started", "status"), started)
	same("statuses that wait", words("intents_next_check", "status"), waiting)
	same("statuses that keep nothing sealed", words("intents_sealed", "status"), settled)
	same("statuses that are settled", words("intents_settled", "status"), settled)
	same("statuses whose result may expire", words("intents_expired", "status"), settled)
	same("statuses of superseded executions", words(`(?i:status\s+text)`, "status"), superseded)
}

// all are the words of an enumeration.
func all[T interface {
	~uint8
	String() string
}]() (words []string) {
	for i := T(1); i.String() != "invalid"; i++ {
		words = append(words, i.String())
	}
	return words
}
