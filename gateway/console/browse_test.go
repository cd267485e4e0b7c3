package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/latchkey-gateway/latchkey/intent"
)

// row returns a row as the ledger has it now.
func (w *world) row(k intent.Key) intent.Receipt {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows[k]
}

// tell notes something about a row, as a replica does that settles it.
func (w *world) tell(r intent.Receipt, a intent.Action, reason, before string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows[r.Key] = r
	w.note(&r, a, intent.ActorGateway, reason, before, nil, time.Now())
}

func (b *browser) body() string { return b.text("body") }

func (b *browser) at(path string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.readyState === 'complete' && location.pathname + location.search === %q", Prefix+path))
}

func TestBrowserDecides(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	b := w.browse(t)
	b.open("/attention")
	if !strings.Contains(b.where(), "/login?next=") {
		t.Fatal("who is not signed in is at ", b.where())
	}
	b.fill("#key", agentKey)
	b.click("form .go")
	b.until(`document.querySelector(".problem")?.innerText.includes("an agent's")`)
	b.fill("#key", operatorKey)
	b.click("form .go")
	b.at("/attention")

	// Approve from the inbox: the second of two people.
	b.open("/approvals")
	form := "#r-" + n.wire.Key.String() + " "
	b.fill(form+`input[name=reason]`, "agreed with finance")
	b.click(form + "button.go")
	b.at("/approvals?done=approve")
	if r := w.row(n.wire.Key); r.Status != intent.Completed || r.ApprovedBy[len(r.ApprovedBy)-1] != "olga" {
		t.Errorf("after approving it is %s", r.Status)
	}
	if !strings.Contains(b.body(), "Your approval is recorded") {
		t.Error("the page does not say what was done")
	}

	// Decline on the receipt's own page, by keyboard alone.
	declined := key("w2")
	b.open("/receipts/" + declined.String())
	b.press("d")
	b.until(`document.activeElement.id === "c-approve"`)
	b.keys(kb.ArrowDown)
	b.until(`document.activeElement.id === "c-decline" && document.activeElement.checked`)
	if told := b.text("#m-decline .told"); !strings.Contains(told, "A person declined wire_transfer") {
		t.Errorf("before it is pressed the page tells %q", told)
	}
	b.shot("chosen")
	b.keys(kb.Tab + "the name is written backwards" + kb.Tab + kb.Enter)
	b.at("/receipts/" + declined.String() + "?done=decline")
	if r := w.row(declined); r.Status != intent.Rejected || r.Reason != intent.ReasonDeclined {
		t.Errorf("after declining it is %s", r.Status)
	}
	b.shot("declined")

	// Resolve what has moved on while the reason was being typed.
	seen := n.looked
	b.open("/receipts/" + seen.Key.String())
	b.click("#c-did_not_happen")
	b.fill("#reason", "nothing in the dashboard")
	settled, err := seen.Apply(seen.CompleteMove("lookup", jsonAnswer(`{"id":"em_9"}`), time.Now()))
	w.tell(must(t, settled, err), intent.ActionLookup, "happened", seen.Standing())
	b.until(`document.querySelector("#decide .stale")?.hidden === false`)
	if kept := eval[string](b, `document.querySelector("#reason").value`); kept != "nothing in the dashboard" {
		t.Errorf("what was typed is %q now", kept)
	}
	b.until(`document.querySelector("#head").innerText.includes("as a lookup found")`) // it is told in place
	b.shot("stale-warned")
	b.click("#decide form[action$=decide] .go")
	b.until(`document.querySelector("h1")?.innerText.includes("It has changed")`)
	if r := w.row(seen.Key); r.Status != intent.Completed || string(r.Outcome.Body) != `{"id":"em_9"}` {
		t.Errorf("it is %s", r.Status)
	}
	b.shot("stale")

	// Resolve what is still as it was seen.
	b.open("/receipts/" + n.parked.Key.String())
	b.click("#c-happened")
	b.fill("#result", `{"charge":12345678901234567890}`)
	b.fill("#reason", "charge ch_1 in the bank's dashboard")
	b.click("#decide form[action$=decide] .go")
	b.at("/receipts/" + n.parked.Key.String() + "?done=happened")
	if r := w.row(n.parked.Key); r.Status != intent.Completed || string(r.Outcome.Body) != `{"charge":12345678901234567890}` {
		t.Errorf("after resolving it is %s", r.Status)
	}
	b.click(".who button")
	b.until(`location.pathname.endsWith("/login")`)
	b.open("/attention")
	if !strings.Contains(b.where(), "/login") {
		t.Error("signed out, and still in")
	}
}

// What changes is told in place, without a reload: rows stay where they are, new ones are
// counted until somebody asks for them.
func TestBrowserLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	b := w.browse(t)
	b.signIn(viewerKey)
	b.open("/attention")
	b.until(`document.querySelector("#live").innerText === "Live."`)
	eval[bool](b, `(window.stayed = true)`)
	rows := `[...document.querySelectorAll("[data-row]")].map((r) => r.id).join()`
	before := eval[string](b, rows)
	top := eval[float64](b, `document.getElementById("r-`+n.parked.Key.String()+`").getBoundingClientRect().top`)

	settled, err := n.looked.Apply(n.looked.CompleteMove("lookup", jsonAnswer(`{"id":"em_9"}`), time.Now()))
	w.tell(must(t, settled, err), intent.ActionLookup, "happened", n.looked.Standing())
	b.until(`document.getElementById("r-` + n.looked.Key.String() + `").innerText.includes("as a lookup found")`)
	late := unknown(t, begun("late", "charge_card", `{"customer":"cus_1"}`, 0), time.Second, intent.Plan{Parked: intent.ParkedByPolicy})
	w.put(late, intent.Executed)
	b.until(`document.getElementById("fresh").innerText === "1 new, show" && !document.getElementById("fresh").hidden`)
	if after := eval[string](b, rows); after != before {
		t.Errorf("rows moved under the reader: %s, then %s", before, after)
	}
	if !eval[bool](b, `document.getElementById("say").innerText.includes("new")`) {
		t.Error("a screen reader is not told")
	}
	if moved := eval[float64](b, `document.getElementById("r-`+n.parked.Key.String()+`").getBoundingClientRect().top`) - top; moved > 60 {
		t.Errorf("a row moved by %v", moved)
	}
	b.shot("live")
	b.press("n")
	b.until(`document.activeElement.closest("[data-row]")?.id === "r-` + late.Key.String() + `"`)
	b.shot("live-shown")

	// The receipt's page: timeline and status in place.
	b.open("/receipts/" + n.parked.Key.String())
	b.until(`document.querySelector("#live").innerText === "Live."`)
	eval[bool](b, `(window.stayed = true)`)
	parked := n.parked
	resolved, err := parked.Apply(parked.RejectMove("operator", intent.RetrySameKey, 0, "", nil, false, time.Now()))
	w.tell(must(t, resolved, err), intent.ActionResolve, "not at the bank", parked.Standing())
	b.until(`document.querySelector("#head .st-rejected") && document.querySelector("#drawn .l-rejected") && document.querySelector("#history").innerText.includes("not at the bank")`)
	if !eval[bool](b, `window.stayed === true`) {
		t.Error("the page was loaded again")
	}
}

func TestBrowserViewerCannotAct(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	b := w.browse(t)
	b.signIn(viewerKey)
	for _, r := range []intent.Receipt{n.parked, n.wire, n.doubt} {
		b.open("/receipts/" + r.Key.String())
		if forms := eval[int](b, `document.querySelectorAll("main form").length`); forms > 0 {
			t.Errorf("a viewer has %d forms", forms)
		}
		body := w.form(r, "happened", "because").Encode()
		status := eval2[int](b, fmt.Sprintf(`fetch("%s/receipts/%s/decide", {method: "POST", body: new URLSearchParams(%q)}).then((r) => r.status)`, Prefix, r.Key, body))
		if status != http.StatusForbidden {
			t.Errorf("a viewer's decision is answered %d", status)
		}
	}
	b.shot("viewer")
	if len(w.orders) > 0 {
		t.Errorf("%d orders were carried out", len(w.orders))
	}
}

// eval2 waits for what a promise brings.
func eval2[T any](b *browser, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return v
}

// Nothing that was stored runs, whichever way it is brought to the page.
func TestBrowserHostileTextDoesNotRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var rows []intent.Receipt
	for i, text := range hostile {
		rows = append(rows, w.poison(t, text, i)...)
	}
	b := w.browse(t)
	b.signIn(operatorKey)
	check := func(at string) {
		t.Helper()
		if eval[bool](b, `window.pwned !== undefined || document.querySelectorAll("main script, main iframe, main style, base").length > 0 || getComputedStyle(document.body).display === "none"`) {
			t.Errorf("%s: something stored was run", at)
		}
	}
	for _, path := range []string{"/attention", "/approvals", "/search?q=window.pwned", "/bulk?q=&choice=happened"} {
		b.open(path)
		check(path)
	}
	b.shot("hostile")
	for i, r := range rows {
		if i%7 > 2 { // every text in every field is in handler tests; here a share of each page
			continue
		}
		b.open("/receipts/" + r.Key.String())
		check(r.RunID)
	}
	b.open("/attention")
	b.until(`document.querySelector("#live").innerText === "Live."`)
	w.poison(t, hostile[1], 700) // by the live update
	b.until(`!document.getElementById("fresh").hidden`)
	b.press("n")
	check("live update")
}

func TestBrowserBulk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	park := intent.Plan{Parked: intent.ParkedByPolicy}
	for i := range 40 {
		w.put(unknown(t, begun(fmt.Sprint("b", i), "charge_card", fmt.Sprintf(`{"customer":"cus_%d"}`, i), time.Duration(i)*time.Minute), time.Second, park))
	}
	w.console.pace = 100 * time.Millisecond
	wire := w.put(unknown(t, begun("wire", "wire_transfer", `{}`, time.Minute), time.Second, park))
	b := w.browse(t)
	b.signIn(operatorKey)
	b.open("/bulk")
	b.fill("#bulk-q", "since:1d")
	eval[string](b, `document.querySelector("#bulk-choice").value = "did_not_happen"`)
	b.click(".plan .go")
	b.until(`document.querySelector("#h-plan")?.innerText.includes("40 of 41")`)
	b.shot("bulk-plan")
	settled := w.row(key("b3"))
	moved, err := settled.Apply(settled.CompleteMove("lookup", nil, time.Now()))
	w.put(must(t, moved, err))
	b.fill("#bulk-reason", "the bank was down all night")
	b.click("form[method=post][action$=bulk] .go")
	b.until(`document.querySelectorAll(".progress li").length > 3 && document.querySelector("#bulk-end") === null`) // it shows while it runs
	b.click(".title .btn.no")
	b.at("/bulk")
	counted := func() (n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, r := range w.rows {
			if r.Status == intent.Rejected {
				n++
			}
		}
		return n
	}
	stopped := counted()
	if stopped == 0 || stopped > 38 {
		t.Errorf("stopped after %d", stopped)
	}
	b.open("/bulk?q=since%3A1d&choice=did_not_happen")
	b.fill("#bulk-reason", "the bank was down all night")
	b.click("form[method=post][action$=bulk] .go")
	b.until(`document.querySelector("#bulk-end")?.innerText.includes("Finished")`)
	b.shot("bulk-done")
	if counted() != 39 || w.row(wire.Key).Status != intent.Unknown || w.row(key("b3")).Status != intent.Completed {
		t.Errorf("%d are rejected, the irreversible one is %s, the one that moved %s", counted(), w.row(wire.Key).Status, w.row(key("b3")).Status)
	}
}

func TestBrowserSearchAndKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	b := w.browse(t)
	b.signIn(viewerKey)
	trace := w.attempts[n.looked.Key][1].TraceID
	for q, want := range map[string]intent.Key{n.looked.Key.String()[:12]: n.looked.Key, "em_771": n.doubt.Key, trace: n.looked.Key, "northwind vat": n.looked.Key, "run:run-42 step:w1": n.wire.Key} {
		b.open("/attention")
		b.press("/")
		b.until(`document.activeElement.id === "q"`)
		b.keys(q + kb.Enter)
		b.at("/search?q=" + strings.ReplaceAll(url.QueryEscape(q), "%20", "+"))
		if got := eval[string](b, `[...document.querySelectorAll("[data-row]")].map((r) => r.id).join()`); got != "r-"+want.String() {
			t.Errorf("%q finds %s", q, got)
		}
	}
	b.press("/")
	eval[string](b, `(document.getElementById("q").value = "")`)
	b.keys(n.done.Key.String() + kb.Enter)
	b.at("/receipts/" + n.done.Key.String())

	b.open("/attention")
	ids := eval[[]string](b, `[...document.querySelectorAll("[data-row]")].map((r) => r.id)`)
	focused := `document.activeElement.closest("[data-row]")?.id`
	b.press("j")
	b.press("j")
	b.until(focused + ` === "` + ids[1] + `"`)
	b.press("k")
	b.until(focused + ` === "` + ids[0] + `"`)
	b.press("?")
	b.until(`document.getElementById("keys").open`)
	b.shot("keys")
	b.keys(kb.Escape)
	b.until(`!document.getElementById("keys").open`)
	b.press("j")
	b.keys(kb.Enter)
	b.at("/receipts/" + strings.TrimPrefix(ids[1], "r-"))
	b.press("g")
	b.press("o")
	b.at("/overview")
}

// Without script every page reads the same, and decides.
func TestBrowserWithoutScript(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	b := w.browse(t)
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	b.signIn(operatorKey)
	b.open("/receipts/" + n.parked.Key.String())
	b.do(chromedp.Click(chromedp.CSS("label[for=c-did_not_happen_corrected]")), chromedp.WaitVisible(chromedp.CSS("#m-did_not_happen_corrected .told")))
	b.fill("#reason", "refused by the bank")
	b.click("#decide form[action$=decide] .go")
	b.do(chromedp.WaitVisible(chromedp.CSS(".done")))
	if r := w.row(n.parked.Key); r.Status != intent.Rejected || r.Retry != intent.RetryCorrected {
		t.Errorf("it is %s", r.Status)
	}
}

// A link in a chat comes from another site, so its first request has no cookie.
func TestBrowserComesFromAnotherSite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.night(t)
	b := w.browse(t)
	b.signIn(viewerKey)
	chat := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(rw, `<link rel="icon" href="data:,"><a id="link" href="%s%s/approvals">a transfer awaits you</a>`, b.base, Prefix)
	}))
	t.Cleanup(chat.Close)
	b.mu.Lock()
	b.other = strings.Replace(chat.URL, "127.0.0.1", "localhost", 1)
	b.mu.Unlock()
	b.do(chromedp.Navigate(b.other + "/"))
	b.click("#link")
	b.until(`document.querySelector("h1")?.innerText === "Approvals"`)
}
