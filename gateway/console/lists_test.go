package console

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

func TestParseSearch(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
	for line, want := range map[string]intentstore.Query{
		"":                                     {},
		"inv-1 Northwind":                      {Q: "inv-1 Northwind"},
		"status:unknown tool:x run:y step:z a": {Status: intent.Unknown, Tool: "x", RunID: "y", StepID: "z", Q: "a"},
		"status:UNKNOWN":                       {Status: intent.Unknown},
		"since:2h until:30m":                   {Since: now.Add(-2 * time.Hour), Until: now.Add(-30 * time.Minute)},
		"since:3d":                             {Since: now.AddDate(0, 0, -3)},
		"since:2026-01-30 until:2026-01-31T02:00:00Z": {Since: now.Truncate(24*time.Hour).AddDate(0, 0, -1), Until: now.Add(-time.Hour)},
		`run:"a b" "c:d e"`:                           {RunID: "a b", Q: "c:d e"},
		"is:attention":                                {Attention: true},
		"https://x":                                   {Q: "https://x"},
		"run:a:b":                                     {RunID: "a:b"},
	} {
		got, problems := parseSearch(line, now)
		if len(problems) > 0 || got != want {
			t.Errorf("%q is %+v, %q", line, got, problems)
		}
	}
	for _, line := range []string{"status:lost", "since:soon", "until:-2h", "tool:", "is:odd", "since:2026-13-01", strings.Repeat("x", 256)} {
		if _, problems := parseSearch(line, now); len(problems) != 1 {
			t.Errorf("%q passes", line)
		}
	}
	if _, problems := parseSearch(quoteField("run", "a b:c"), now); len(problems) > 0 {
		t.Error("a quoted run is not read back")
	}
}

func TestSearchFindsByEveryKindOfID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	v := w.signIn(t, viewerKey)
	trace := w.attempts[n.looked.Key][1].TraceID
	for q, want := range map[string]intent.Receipt{
		n.looked.Key.String()[:10]: n.looked, "inv-2026-0117 northwind": n.looked, trace: n.looked, "em_771": n.doubt, "step:w1": n.wire,
		"tool:charge_card status:unknown": n.parked, "em_770 status:completed": n.done, "cus_8841": n.parked,
	} {
		page := v.page("/search?q=" + url.QueryEscape(q))
		if !strings.Contains(page, `id="r-`+want.Key.String()) || strings.Count(page, `<li class="row`) != 1 {
			t.Errorf("%q finds %d rows", q, strings.Count(page, `<li class="row`))
		}
	}
	answer := v.get("/search?q=" + strings.ToUpper(n.done.Key.String()))
	if answer.Header().Get("Location") != Prefix+"/receipts/"+n.done.Key.String() {
		t.Error("a whole key does not lead to its receipt")
	}
	if answer := v.get("/search?q=status:lost+inv"); answer.Code != http.StatusBadRequest || strings.Contains(answer.Body.String(), `<li class="row`) {
		t.Error("a filter that was not understood was dropped")
	}
	if answer := v.get("/search?q=&cursor=x"); answer.Code != http.StatusBadRequest {
		t.Errorf("a cursor of nobody's: %d", answer.Code)
	}
}

func TestSearchHasPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 60 {
		w.put(begun(fmt.Sprint("s", i), "charge_card", `{}`, time.Duration(i)*time.Second))
	}
	v := w.signIn(t, viewerKey)
	seen := map[string]bool{}
	for path := "/search?q=run%3Arun-42"; path != ""; {
		page := v.page(path)
		path = ""
		walk(t, page, func(n *html.Node) {
			if id := attribute(n, "id"); strings.HasPrefix(id, "r-") {
				seen[id] = true
			}
			if attribute(n, "rel") == "next" {
				path = strings.TrimPrefix(attribute(n, "href"), Prefix)
			}
		})
	}
	if len(seen) != 60 {
		t.Errorf("%d of 60 are on the pages", len(seen))
	}
}

func TestAttentionGroupsAndKeeps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	v := w.signIn(t, viewerKey)
	page := v.page("/attention")
	at := func(s string) int { return strings.Index(page, s) }
	order := []int{at("In doubt"), at("r-" + n.doubt.Key.String()), at("Waiting for you"), at("r-" + n.parked.Key.String()), at("Awaiting approval"), at("r-" + n.wire.Key.String()),
		at("Being looked into"), at("r-" + n.looked.Key.String())}
	if slices.Contains(order, -1) || !slices.IsSorted(order) {
		t.Errorf("the groups are out of order: %v", order)
	}
	if strings.Contains(page, "r-"+n.done.Key.String()) {
		t.Error("a completed one needs attention")
	}
	for _, want := range []string{"after 3 checks that proved nothing", "answered 200: nothing there", "policy leaves that to a person", "otto approved; another person must approve too"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	// What was in sight and is settled by now stays, and is told as such.
	page = v.page("/attention?keep=" + n.done.Key.String() + "&keep=" + n.parked.Key.String() + "&keep=bad")
	if !strings.Contains(page, `gone w-completed" id="r-`+n.done.Key.String()) || strings.Count(page, "r-"+n.parked.Key.String()) != 1 {
		t.Error("a row that was in sight is not kept once")
	}
	empty := newWorld(t)
	if page := empty.signIn(t, viewerKey).page("/attention"); !strings.Contains(page, "Nothing needs you") {
		t.Error("an empty page does not say so")
	}
}

func TestRunFoldsDuplicates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	page := w.signIn(t, viewerKey).page("/run?id=run-42")
	for _, want := range []string{"4 calls: 1 executed, 3 replayed", "5 calls: 1 executed, 1 collapsed, 2 pending, 1 mismatch", "8 actions, oldest first", "9 repeated calls"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if first, last := strings.Index(page, "r-"+n.first.Key.String()), strings.Index(page, "r-"+n.looked.Key.String()); first < 0 || last < first {
		t.Error("the run is not in order")
	}
	if answer := w.signIn(t, viewerKey).get("/run"); answer.Code != http.StatusBadRequest {
		t.Errorf("a run without a name: %d", answer.Code)
	}
}

func TestToolsTellWhatCheckSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.night(t)
	w.breakers["bank"] = "open"
	page := w.signIn(t, viewerKey).page("/tools")
	_, remarks := w.console.Catalogue.Audit()
	if len(remarks) == 0 {
		t.Fatal("the test's catalogue has nothing to remark on")
	}
	for _, f := range remarks {
		if !strings.Contains(page, f.Field) || !strings.Contains(page, "f-"+string(f.Severity)) {
			t.Errorf("the page does not tell of %s %s", f.Tool, f.Field)
		}
	}
	for _, want := range []string{"breaker open", "an unknown outcome waits for a person", "duplicates prevented</dt><dd>1266", "<small>0.5 %</small>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

func TestOverviewCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.night(t)
	v := w.signIn(t, viewerKey)
	page := v.page("/overview")
	for _, want := range []string{"Duplicates prevented: 1266 in all, 422 joined in flight, 844 replayed", "Mismatches blocked: 12 in all", "<svg viewBox=", "The numbers"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if page := v.page("/overview?reach=1h"); !strings.Contains(page, `reach=1h" aria-current="true"`) || strings.Contains(page, "1266 in all") {
		t.Error("an hour shows a day")
	}
	if page := newWorld(t).signIn(t, viewerKey).page("/overview"); strings.Count(page, "none in this time") != len(plots) {
		t.Error("an empty plot does not say so")
	}
}

func TestPlotCountsWhatFallsIntoIt(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	layers := []layer{{"replayed", "p1", attempt(intent.Replayed)}}
	count := func(at time.Duration, word string, n int64) intentstore.Count {
		return intentstore.Count{At: since.Add(at), Kind: "attempt", Word: word, N: n}
	}
	p := newPlot("x", "", layers, []intentstore.Count{count(-time.Second, "replayed", 1), count(0, "replayed", 2), count(59*time.Minute, "replayed", 3), count(time.Hour, "replayed", 4),
		count(3*time.Hour, "replayed", 5), count(0, "executed", 6)}, since, time.Hour, 3)
	if p.Total != 9 || len(p.Bars) != 2 || len(p.Rows) != 2 || p.Rows[0].Counts[0] != 5 || p.Bars[0].H <= p.Bars[1].H {
		t.Errorf("total %d, bars %+v, rows %+v", p.Total, p.Bars, p.Rows)
	}
	for _, b := range p.Bars {
		if b.X < p.Left || b.X+b.W > p.Right || b.Y < 0 || b.Y+b.H > p.Base+0.01 {
			t.Errorf("a bar is outside: %+v", b)
		}
	}
	for n, want := range map[int64]int64{0: 2, 1: 2, 3: 4, 5: 6, 7: 10, 11: 20, 45: 60, 61: 100, 100: 100, 101: 200} {
		if got := niceTop(n); got != want {
			t.Errorf("the axis of %d ends at %d, want %d", n, got, want)
		}
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ was, now, want string }{
		{`{"a":1}`, `{"a":1.0}`, ""}, {`{"a":1}`, `{"a":2}`, "changed /a 1>2"}, {`{"a":9007199254740992}`, `{"a":9007199254740993}`, "changed /a 9007199254740992>9007199254740993"},
		{`{"a":1}`, `{"b":1}`, "added /b >1, removed /a 1>"}, {`{"a":{"b":[1]}}`, `{"a":{"b":[2],"c":null}}`, "changed /a/b [1]>[2], added /a/c >null"}, {`{"a":1}`, `[1]`, `changed / {"a": 1}>[1]`},
		{`{"a/b":1}`, `{"a/b":2}`, "changed /a~1b 1>2"},
	} {
		var got []string
		for _, d := range differences([]byte(c.was), []byte(c.now)) {
			got = append(got, d.Kind+" "+d.At+" "+joined(d.Was)+">"+joined(d.Now))
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s to %s: %q, want %q", c.was, c.now, s, c.want)
		}
	}
}

func joined(pieces []piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
	}
	return b.String()
}

// An approver compares with the most similar earlier call, not with the last one.
func TestComparedWithTheMostSimilar(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(completed(t, begun("a", "wire_transfer", `{"iban":"DE1","amount":"5","purpose":"rent"}`, 3*time.Hour), `{}`, time.Second))
	w.put(completed(t, begun("b", "wire_transfer", `{"iban":"FR2","amount":"9","purpose":"tax"}`, time.Hour), `{}`, time.Second))
	r := w.put(awaiting(begun("c", "wire_transfer", `{"iban":"DE1","amount":"50","purpose":"rent"}`, time.Minute), time.Hour))
	v := w.signIn(t, operatorKey)
	for _, path := range []string{"/approvals", "/receipts/" + r.Key.String()} {
		page := v.page(path)
		if !strings.Contains(page, key("a").Short()) || strings.Contains(page, key("b").Short()) || !strings.Contains(page, "/amount") || strings.Contains(page, "/purpose") {
			t.Errorf("%s compares with another call", path)
		}
	}
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	v := w.signIn(t, viewerKey)
	page := v.page("/receipts/" + n.looked.Key.String())
	for _, want := range []string{"m-executed", "m-collapsed", "m-pending", "m-mismatch", "m-lookup-nothing", "m-next", "l-unknown", "l-deadline", "l-lease", "l-now", "bar-unknown", "written ahead", "tool&#39;s deadline",
		"eu-west-1 / gw-b", "http://jaeger.example/trace/" + w.attempts[n.looked.Key][1].TraceID} {
		if !strings.Contains(page, want) {
			t.Errorf("the timeline does not show %q", want)
		}
	}
	if page := v.page("/receipts/" + n.doubt.Key.String()); !strings.Contains(page, "m-late_answer") || !strings.Contains(page, "m-reexecute") || strings.Count(page, "Execution 1 from")+strings.Count(page, "Execution 2 from") != 4 {
		t.Error("the timeline of a doubt does not show both executions and the late answer")
	}
	if page := v.page("/receipts/" + n.wire.Key.String()); !strings.Contains(page, "held for approval") || !strings.Contains(page, "m-approve") || strings.Contains(page, `class="bar`) {
		t.Error("the timeline of what awaits approval shows something that was sent, or not who approved")
	}
}

// Whatever happened when: order is kept, nothing is outside, and what is close together
// beside a long wait is still apart.
func TestTimelineLayout(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
	for name, offsets := range map[string][]time.Duration{
		"one": {0}, "twins": {0, 0}, "even": {0, time.Second, 2 * time.Second, 3 * time.Second}, "a lookup days later": {0, time.Millisecond, 30 * time.Second, 31 * time.Second, 3 * 24 * time.Hour},
		"crowd": append(make([]time.Duration, 300), time.Hour),
	} {
		tl := &timeline{now: start}
		for _, o := range offsets {
			tl.moments = append(tl.moments, moment{At: start.Add(o), Lane: laneCalls, Kind: "replayed"})
		}
		tl.lines = []limit{{start, "begin", "written ahead"}, {start.Add(offsets[len(offsets)-1]), "completed", "completed"}}
		for _, width := range []float64{1040, 344} {
			d := tl.draw(width)
			marks := 0
			for _, m := range d.Marks {
				marks += max(1, m.Count)
				if m.X < d.Left || m.X > d.Right || m.Y > d.Bottom {
					t.Errorf("%s: a mark is outside: %+v", name, m)
				}
			}
			if marks != len(offsets) {
				t.Errorf("%s: %d marks for %d calls", name, marks, len(offsets))
			}
			if !slices.IsSortedFunc(d.Ticks, func(a, b tickShape) int { return int(a.X - b.X) }) {
				t.Errorf("%s: ticks are out of order", name)
			}
			for _, l := range d.Lines {
				if w := float64(len(l.Label)) * letterWidth; l.Anchor == "start" && l.LabelX+w > d.Width || l.Anchor == "end" && l.LabelX-w < 0 {
					t.Errorf("%s: a label is cut: %+v", name, l)
				}
			}
		}
		if d := tl.draw(1040); name == "a lookup days later" && (!d.Compressed || d.Marks[2].X-d.Marks[0].X < 8) {
			t.Errorf("%s: half a minute is %v wide", name, d.Marks[2].X-d.Marks[0].X)
		}
		if d := tl.draw(1040); name == "even" && d.Compressed {
			t.Error("an even axis is compressed")
		}
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "0 ms", 850 * time.Millisecond: "850 ms", 7300 * time.Millisecond: "7.3 s", 40 * time.Second: "40 s", 185 * time.Second: "3 min 5 s",
		2 * time.Hour: "2 h", 50*time.Hour + time.Minute: "2 d 2 h", 24*time.Hour + time.Minute: "1 d"} {
		if got := span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// The stream tells the keys that changed, of this tenant alone, and ends with the console.
func TestEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.night(t)
	server := httptest.NewUnstartedServer(w.console)
	server.Config.ReadTimeout = 200 * time.Millisecond
	server.Start()
	defer server.Close()
	stream := func(key string) (*bufio.Scanner, context.CancelFunc) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+Prefix+"/events", nil)
		r.AddCookie(w.signIn(t, key).cookies[0])
		answer, err := http.DefaultClient.Do(r)
		if err != nil || answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%v %+v", err, answer)
		}
		t.Cleanup(func() { answer.Body.Close() })
		lines := bufio.NewScanner(answer.Body)
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), "retry:") {
			t.Fatal("no stream")
		}
		return lines, cancel
	}
	mine, stop := stream(viewerKey)
	defer stop()
	theirs, stopTheirs := stream(otherKey)
	defer stopTheirs()
	<-time.After(2 * server.Config.ReadTimeout) // a stream outlives it
	other := begun("zeta", "charge_card", `{}`, 0)
	other.Tenant = "zeta"
	w.put(other, intent.Executed)
	r := w.put(begun("news", "charge_card", `{}`, 0), intent.Executed, intent.Pending)
	want := func(lines *bufio.Scanner, key intent.Key) {
		t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if data != `{"keys":["`+key.String()+`"]}` {
					t.Errorf("the stream tells %s", data)
				}
				return
			}
		}
		t.Error("the stream tells nothing: ", lines.Err())
	}
	want(mine, r.Key)
	want(theirs, other.Key)
	w.console.Close()
	for mine.Scan() {
	}
	if err := mine.Err(); err != nil {
		t.Errorf("the stream did not end with the console: %v", err)
	}
}
