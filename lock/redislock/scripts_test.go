package redislock

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/lock"
)

var scripts = map[string]string{
	"claim": claimSource, "renew": renewSource, "settle": settleSource,
	"release": releaseSource, "get": getSource, "overdue": overdueSource,
}

// What a script calls a number, by script; and what every script calls a status or retry.
var (
	codes = map[string]map[string]int{
		"claim": {
			"CLAIMED": int(lock.Claimed), "HELD": int(lock.Held), "SETTLED": int(lock.Settled), "UNKNOWN": int(lock.Unknown),
			"AWAITING": int(lock.Awaiting), "MISMATCH": int(lock.Mismatch), "STEP_CONFLICT": int(lock.StepConflict),
		},
		"renew":   {"LOST": renewLost, "RENEWED": renewRenewed, "REWRITTEN": renewRewritten},
		"settle":  {"KEPT": settleKept, "WROTE": settleWrote, "REFILLED": settleRefilled},
		"release": {"NOTHING": releaseNothing, "RELEASED": releaseReleased, "ANOTHERS": releaseAnothers},
		"get":     {"NONE": getNone, "FOUND": getFound},
	}
	digits = map[string]int{
		"AWAITING_APPROVAL": int(intent.AwaitingApproval), "STARTED": int(intent.Started), "LOST": int(intent.Unknown),
		"COMPLETED": int(intent.Completed), "REJECTED": int(intent.Rejected), "RETRY_SAME_KEY": int(intent.RetrySameKey),
	}
)

func TestScriptsNameTheSameNumbers(t *testing.T) {
	t.Parallel()
	for verb, source := range scripts {
		named, statuses := constants(t, source)
		for name, n := range codes[verb] {
			if got, ok := named[name]; !ok || got != n {
				t.Errorf("%s.lua: %s is %d (there: %v), in Go %d", verb, name, got, ok, n)
			}
		}
		if len(named) != len(codes[verb]) {
			t.Errorf("%s.lua has codes %v, Go has %v", verb, named, codes[verb])
		}
		for name, n := range statuses {
			if want, ok := digits[name]; !ok || want != n {
				t.Errorf("%s.lua: %s is '%d', in Go %d (there: %v)", verb, name, n, want, ok)
			}
		}
		// Every code is returned somewhere, and nothing else is.
		for _, m := range regexp.MustCompile(`(?:return \{|answer\()(\w+)`).FindAllStringSubmatch(source, -1) {
			if m[1] != "code" && !slices.Contains(keysOf(codes[verb]), m[1]) {
				t.Errorf("%s.lua returns %s, which is no code", verb, m[1])
			}
		}
		body := source[strings.LastIndex(source, "local "+firstName(source)):]
		for name := range codes[verb] {
			if strings.Count(body, name) < 2 {
				t.Errorf("%s.lua never returns %s", verb, name)
			}
		}
	}
	if len(codes["claim"]) != int(lock.StepConflict) {
		t.Error("a lock.Code is missing here")
	}
}

// constants reads the `local A, B = 1, '2'` lines: numbers are codes, strings are digits.
func constants(t *testing.T, source string) (numbers, digits map[string]int) {
	t.Helper()
	numbers, digits = map[string]int{}, map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^local ([A-Z_, ]+) = (.+)$`).FindAllStringSubmatch(source, -1) {
		names, values := strings.Split(m[1], ", "), strings.Split(m[2], ", ")
		if len(names) != len(values) {
			t.Fatalf("uneven: %s", m[0])
		}
		for i, v := range values {
			into := numbers
			if strings.HasPrefix(v, "'") {
				into, v = digits, strings.Trim(v, "'")
			}
			n, err := strconv.Atoi(v)
			if err != nil {
				t.Fatalf("%s: %v", m[0], err)
			}
			into[names[i]] = n
		}
	}
	return numbers, digits
}

func firstName(source string) string {
	if m := regexp.MustCompile(`(?m)^local ([A-Z_]+)`).FindStringSubmatch(source); m != nil {
		return m[1]
	}
	return ""
}

func keysOf(m map[string]int) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	return names
}

func TestScriptsReadTheLayout(t *testing.T) {
	t.Parallel()
	const after = headLen + deadlineLen + 1
	places := map[string]bool{
		"1, 1": true, "2, 2": true, "3, 3": true, "4, 4": true,
		place(fenceAt, keyAt): true, place(keyAt, fingerprintAt): true, place(fingerprintAt, claimAt): true,
		place(claimAt, headLen): true, place(0, headLen): true, strconv.Itoa(after): true,
	}
	n := 0
	for verb, source := range scripts {
		for _, m := range regexp.MustCompile(`string\.sub\([\w\[\]]+, ([\d, ]+)\)`).FindAllStringSubmatch(source, -1) {
			n++
			if !places[m[1]] {
				t.Errorf("%s.lua reads bytes %s: no field of record.go", verb, m[1])
			}
		}
		for _, m := range regexp.MustCompile(`%0(\d+)d`).FindAllStringSubmatch(source, -1) {
			if m[1] != strconv.Itoa(fenceDigits) && m[1] != strconv.Itoa(deadlineLen) {
				t.Errorf("%s.lua writes %s digits", verb, m[1])
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d reads were found: the test does not look at what it should", n)
	}
}

// place is a Go slice's bounds as string.sub's.
func place(from, to int) string { return fmt.Sprintf("%d, %d", from+1, to) }

func TestScriptsHaveHeaders(t *testing.T) {
	t.Parallel()
	for verb, source := range scripts {
		header, body, _ := strings.Cut(source, "\nlocal ")
		for _, word := range []string{"KEYS[1] ", "Touches  KEYS[1]", "Returns  {"} {
			if !strings.Contains(header, word) {
				t.Errorf("%s.lua: the header lacks %q", verb, word)
			}
		}
		for i := 1; strings.Contains(body, fmt.Sprintf("ARGV[%d]", i)); i++ {
			if !strings.Contains(header, fmt.Sprintf("ARGV[%d]", i)) {
				t.Errorf("%s.lua: the header lacks ARGV[%d]", verb, i)
			}
		}
		if strings.Contains(body, "KEYS[2]") || strings.Contains(source, "cjson") {
			t.Errorf("%s.lua: one key per script, and no number through cjson", verb)
		}
	}
}

// The script's own rank and supersedes, run for every pair of states, against the Go ones.
func TestSettleScriptRanksAsGo(t *testing.T) {
	t.Parallel()
	from, to := strings.Index(settleSource, "local KEPT"), strings.Index(settleSource, "local function clock")
	functions := settleSource[from:to]
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = client.Close() })

	var states []lock.Record
	for key, fences := range map[intent.Key][]uint64{{1}: {9, 10, maxFence}, {2}: {10}} {
		for _, fence := range fences {
			for status := intent.AwaitingApproval; status <= intent.Rejected; status++ {
				for _, durable := range []bool{false, true} {
					states = append(states, lock.Record{Key: key, Fence: fence, Status: status, Durable: durable, Hot: fence == 9})
				}
			}
		}
	}
	var packs []any
	for _, r := range states {
		packs = append(packs, packed(t, r))
	}
	run := func(body string) []int64 {
		got, err := client.Eval(t.Context(), functions+"local out = {}\n"+body+"\nreturn out", nil, packs...).Int64Slice()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	ranks := run(`for i = 1, #ARGV do out[i] = rank(ARGV[i]) end`)
	pairs := run(`for i = 1, #ARGV do for j = 1, #ARGV do
		out[#out + 1] = supersedes(ARGV[i], ARGV[j]) and 1 or 0 end end`)
	for i, old := range states {
		if want := lock.Rank(old.Status, old.Durable); ranks[i] != int64(want) {
			t.Errorf("rank of %v, durable %v: the script says %d, Go says %d", old.Status, old.Durable, ranks[i], want)
		}
		for j, next := range states {
			if want := lock.Supersedes(&old, next); want != (pairs[i*len(states)+j] == 1) {
				t.Errorf("%+v then %+v: Go says %v, the script does not", old, next, want)
			}
		}
	}
}

func packed(t *testing.T, r lock.Record) []byte {
	t.Helper()
	b, err := appendState(&r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
