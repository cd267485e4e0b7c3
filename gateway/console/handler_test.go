package console

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/latchkey-gateway/latchkey/intent"
)

// paths are all pages that show something of what is stored.
func (n night) paths() []string {
	list := []string{"/attention", "/approvals", "/search?q=", "/search?q=status:lost", "/run?id=run-42", "/tools", "/overview", "/overview?reach=30d", "/bulk", "/bulk?q=&choice=happened",
		"/attention?keep=" + n.done.Key.String()}
	for _, r := range []intent.Receipt{n.looked, n.parked, n.wire, n.first, n.doubt, n.done, n.declined} {
		list = append(list, "/receipts/"+r.Key.String())
	}
	return list
}

// walk visits every element of a page.
func walk(t *testing.T, page string, visit func(*html.Node)) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			visit(n)
		}
	}
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// checkInert finds what the policy would have to allow: inline script, style and handlers,
// addresses of others, and targets that are no address.
func checkInert(t *testing.T, path, page string) {
	t.Helper()
	walk(t, page, func(n *html.Node) {
		switch n.Data {
		case "script":
			if n.FirstChild != nil || !strings.HasPrefix(attribute(n, "src"), Prefix+"/static/") {
				t.Errorf("%s: a script that is not our file", path)
			}
		case "style", "iframe", "object", "embed", "base":
			t.Errorf("%s: <%s>", path, n.Data)
		}
		for _, a := range n.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "srcdoc":
				t.Errorf("%s: <%s %s=%q>", path, n.Data, a.Key, a.Val)
			case a.Key == "src", a.Key == "href", a.Key == "action":
				if !strings.HasPrefix(a.Val, Prefix) && !strings.HasPrefix(a.Val, "#") && !strings.HasPrefix(a.Val, "http://jaeger.example/trace/") {
					t.Errorf("%s: <%s %s=%q> leads elsewhere", path, n.Data, a.Key, a.Val)
				}
			}
			if strings.Contains(a.Val, "ZgotmplZ") {
				t.Errorf("%s: a value that does not fit its place: <%s %s>", path, n.Data, a.Key)
			}
		}
	})
}

func TestHeadersAndInertPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	v := w.signIn(t, operatorKey)
	anonymous := &visitor{t: t, h: w.console}
	for _, path := range append(n.paths(), "/nowhere", "/receipts/xyz") {
		answer := v.get(path)
		h := answer.Header()
		if got := h.Get("Content-Security-Policy"); got != policy || strings.Contains(got, "unsafe") {
			t.Errorf("%s: policy %q", path, got)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"} {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q", path, name, h.Get(name))
			}
		}
		checkInert(t, path, answer.Body.String())
	}
	checkInert(t, "login", anonymous.page("/login"))
}

// What an agent, a downstream or a person may have stored. Each must come out as text.
var hostile = []string{
	`<script>window.pwned=1</script>`, `"><img src=x onerror="window.pwned=1">`, `'><svg/onload=window.pwned=1>`, `</code></pre><script>window.pwned=1</script>`,
	`</title><script>window.pwned=1</script>`, `</textarea><script>window.pwned=1</script>`, `<!--`, `-->`, `]]>`, `javascript:window.pwned=1`, `" onfocus="window.pwned=1" autofocus="`,
	`' onmouseover='window.pwned=1`, `{{.}}`, `{{define "top"}}x{{end}}`, `<base href=//evil.example>`, `<meta http-equiv=refresh content="0;url=//evil.example">`,
	`<link rel=stylesheet href=//evil.example>`, `<style>*{display:none}</style>`, `<form action=//evil.example><button>`, `<a href="javascript:window.pwned=1">x</a>`, `<iframe srcdoc="<script>parent.pwned=1</script>">`,
	"\u2028window.pwned=1", "<\u0000script>", `&lt;script&gt;window.pwned=1&lt;/script&gt;`, `<math><mtext></form><form><mglyph><style></math><img src onerror=window.pwned=1>`, `data:text/html,<script>window.pwned=1</script>`,
}

// poison stores the text in every field that somebody outside can fill.
func (w *world) poison(t *testing.T, text string, n int) []intent.Receipt {
	t.Helper()
	word := "x" + string(rune('a'+n%26)) + string(rune('a'+n/26))
	fill := func(r intent.Receipt) intent.Receipt {
		clean := strings.ReplaceAll(text, "\x00", "")
		r.RunID, r.StepID, r.Replica, r.Region = clean, clean, clean, clean
		return r
	}
	args := `{` + asJSON(text) + `:` + asJSON(text) + `,"list":[` + asJSON(text) + `]}`
	lost := fill(unknown(t, begun(word+"1", "send_invoice_email", args, time.Minute), time.Second, intent.Plan{Parked: intent.ParkedByPolicy}))
	lost.Evidence, lost.Checks = []byte(`{"proof":"absent","http_status":200,"body":{"excerpt":`+asJSON(text)+`}}`), 1
	w.put(lost, intent.Executed)
	done := fill(begun(word+"2", "charge_card", args, time.Minute))
	done, err := done.Apply(done.CompleteMove("downstream", &intent.Outcome{HTTPStatus: 200, Headers: map[string]string{"content-type": "text/html", "x-note": text}, Body: []byte(text)}, time.Now()))
	done = must(t, done, err)
	w.put(done, intent.Executed, intent.Replayed)
	ask := fill(awaiting(begun(word+"3", "wire_transfer", args, time.Minute), time.Hour))
	ask.ApprovedBy = []string{text}
	w.put(ask, intent.Pending)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range []*intent.Receipt{&lost, &done, &ask} {
		w.note(r, intent.ActionWait, text, text, text, []byte(asJSON(text)), time.Now())
		list := w.attempts[r.Key]
		list[0].Credential, list[0].Replica, list[0].TraceID = text, text, text
	}
	return []intent.Receipt{lost, done, ask}
}

func TestStoredTextStaysText(t *testing.T) {
	t.Parallel()
	for i, text := range hostile {
		w := newWorld(t)
		rows := w.poison(t, text, i)
		w.notices = []string{text}
		v := w.signIn(t, operatorKey)
		paths := []string{"/attention", "/approvals", "/search?q=", "/search?q=" + url.QueryEscape(text), "/bulk?q=&choice=happened", "/bulk?choice=happened&q=" + url.QueryEscape(text),
			"/run?id=" + url.QueryEscape(rows[0].RunID), "/login?next=" + url.QueryEscape(text)}
		for _, r := range rows {
			paths = append(paths, "/receipts/"+r.Key.String()+"?done="+url.QueryEscape(text))
		}
		for _, path := range paths {
			checkInert(t, path, v.get(path).Body.String())
		}
		form := w.form(rows[0], "happened", text)
		form.Set("result", text)
		form.Set("tag", "9.9")
		for name, answer := range map[string]*httptest.ResponseRecorder{
			"a form that comes back":        v.post(decidePath(rows[0]), form),
			"a page that tells of a change": v.post(decidePath(rows[1]), w.form(rows[1], "happened", text)),
			"a bulk run":                    v.post("/bulk", url.Values{"choice": {"happened"}, "reason": {text}, "item": {text, rows[0].Key.String() + "@1.1"}}),
		} {
			checkInert(t, name, answer.Body.String())
		}
	}
}

// Text that shows as something else than it is, is written so that it cannot.
func TestHiddenCharactersAreShown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Acme\u202eEMCA": `Acme\u202eEMCA`, "a\u200bb": `a\u200bb`, "a\u00a0b": `a\u00a0b`, "\u2066x\u2069": `\u2066x\u2069`, "a\nb": `a\nb`, "é": "é", "日本": "日本", "a\ufe0fb": `a\ufe0fb`,
		"\U000e0041": `\u{e0041}`, `q"\`: `q\"\\`, "\u3164": `\u3164`,
	} {
		var b strings.Builder
		for _, p := range exact([]byte(asJSON(text))) {
			b.WriteString(p.Text)
		}
		if b.String() != `"`+want+`"` {
			t.Errorf("%q is shown as %s, want %q", text, b.String(), want)
		}
	}
}

func TestNumbersAreExactAndRedactionsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	v := w.signIn(t, viewerKey)
	if page := v.page("/receipts/" + n.looked.Key.String()); !strings.Contains(page, `<span class="j-number">9007199254740993.10</span>`) {
		t.Error("the amount is not shown with all its digits")
	}
	if page := v.page("/receipts/" + n.done.Key.String()); !strings.Contains(page, "1764543210123456789") {
		t.Error("the result's number is not shown with all its digits")
	}
	for _, path := range []string{"/attention", "/receipts/" + n.parked.Key.String()} {
		if page := v.page(path); !strings.Contains(page, `<span class="j-redacted">redacted</span>`) || strings.Contains(page, "[redacted]") {
			t.Errorf("%s does not show a redaction as one", path)
		}
	}
}

func TestLoginTakesViewersAndOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := &visitor{t: t, h: w.console}
	for key, code := range map[string]int{operatorKey: 303, viewerKey: 303, agentKey: 403, "wrong": 403, "": 403} {
		answer := v.post("/login", url.Values{"key": {key}, "next": {Prefix + "/tools"}})
		cookies := answer.Result().Cookies()
		if answer.Code != code || (len(cookies) == 1) != (code == 303) {
			t.Fatalf("key %q: %d with %d cookies", key, answer.Code, len(cookies))
		}
		if code != 303 {
			continue
		}
		c := cookies[0]
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != Prefix || c.Secure || strings.Contains(c.Value, key) {
			t.Errorf("cookie %+v", c)
		}
		if to := answer.Header().Get("Location"); to != Prefix+"/tools" {
			t.Errorf("leads to %s", to)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "https://gateway.example"+Prefix+"/login", strings.NewReader("key="+operatorKey))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if c := v.do(r).Result().Cookies(); len(c) != 1 || !c[0].Secure {
		t.Error("over TLS the cookie is not Secure")
	}
	for _, next := range []string{"//evil.example", "https://evil.example", "/console//evil\\x", "/v1/receipts", "javascript:1", Prefix + "/events"} {
		if to := v.post("/login", url.Values{"key": {viewerKey}, "next": {next}}).Header().Get("Location"); to != Prefix+"/attention" {
			t.Errorf("next %q leads to %s", next, to)
		}
	}
}

func TestSessionsAreSealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signIn(t, operatorKey)
	value := v.cookies[0].Value
	now := time.Now()
	if p, _, err := w.console.session(value, now); err != nil || p.ID != "olga" || p.Tenant != "acme" {
		t.Fatalf("the session is %+v, %v", p, err)
	}
	refused := map[string]string{"empty": "", "no dot": "abc", "not base64": "!.!", "another's name": strings.Replace(value, value[:strings.Index(value, ".")], "dmVyYQ", 1)}
	for i := range len(value) {
		if c := value[i]; c != '.' && i != strings.Index(value, ".")-1 && i != len(value)-1 { // a last digit may hold unused bits
			b := []byte(value)
			if b[i] = 'A'; c == 'A' {
				b[i] = 'B'
			}
			refused["byte "+string(rune('0'+i%10))+value[:i]] = string(b)
		}
	}
	forged, err := w.console.seal("olga", "no key of anybody", now.Add(time.Hour)) // who has read the config can do this
	if err != nil {
		t.Fatal(err)
	}
	refused["sealed around no key"] = forged
	stolen, _ := w.console.seal("olga", viewerKey, now.Add(time.Hour))
	refused["sealed around another's key"] = stolen
	for name, value := range refused {
		if p, _, err := w.console.session(value, now); !errors.Is(err, errNoSession) {
			t.Fatalf("%s: let in as %+v", name, p)
		}
	}
	if _, _, err := w.console.session(value, now.Add(sessionLife-time.Minute)); err != nil {
		t.Error("ended too early")
	}
	if _, _, err := w.console.session(value, now.Add(sessionLife+time.Second)); !errors.Is(err, errNoSession) {
		t.Error("an expired session lets in")
	}

	same, gone := newWorld(t), newWorld(t)
	if _, _, err := same.console.session(value, now); err != nil {
		t.Error("another replica with the same config does not know the session")
	}
	o := gone.console.Options
	o.Keys = slices.DeleteFunc(testKeys(), func(k authKey) bool { return k.ID == "olga" })
	without, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := without.session(value, now); !errors.Is(err, errNoSession) {
		t.Error("a removed key's session lets in")
	}
}

func TestWithoutSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	v := &visitor{t: t, h: w.console}
	for _, path := range n.paths() {
		answer := v.get(path)
		if to := answer.Header().Get("Location"); answer.Code != http.StatusSeeOther || !strings.HasPrefix(to, Prefix+"/login?next=") {
			t.Errorf("%s: %d to %s", path, answer.Code, to)
		}
	}
	if answer := v.get("/events"); answer.Code != http.StatusUnauthorized {
		t.Errorf("events: %d", answer.Code)
	}
	if answer := v.post(decidePath(n.parked), w.form(n.parked, "happened", "because")); answer.Code != http.StatusUnauthorized || len(w.orders) > 0 {
		t.Errorf("deciding: %d, %d orders", answer.Code, len(w.orders))
	}
	// A link in a chat: the first request comes without the cookie, the page asks again.
	r := httptest.NewRequest(http.MethodGet, Prefix+"/attention", nil)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if answer := v.do(r); answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), `http-equiv="refresh"`) {
		t.Errorf("from another site: %d", answer.Code)
	}
}

func TestCrossOriginPostsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	v := w.signIn(t, operatorKey)
	for name, header := range map[string][2]string{"cross-site": {"Sec-Fetch-Site", "cross-site"}, "same-site": {"Sec-Fetch-Site", "same-site"}, "origin": {"Origin", "https://evil.example"}} {
		for path, form := range map[string]url.Values{decidePath(n.parked): w.form(n.parked, "happened", "because"), "/login": {"key": {operatorKey}}, "/logout": {}, "/bulk": {"choice": {"happened"}}} {
			r := httptest.NewRequest(http.MethodPost, Prefix+path, strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set(header[0], header[1])
			if answer := v.do(r); answer.Code != http.StatusForbidden || len(answer.Result().Cookies()) > 0 {
				t.Errorf("%s %s: %d", name, path, answer.Code)
			}
		}
	}
	if len(w.orders) > 0 {
		t.Errorf("%d orders were carried out", len(w.orders))
	}
}

func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	v := w.signIn(t, otherKey)
	for _, path := range n.paths() {
		body := v.get(path).Body.String()
		if strings.Contains(body, "northwind") || strings.Contains(body, "inv-2026") {
			t.Errorf("%s shows another tenant's receipts", path)
		}
	}
	if answer := v.get("/receipts/" + n.done.Key.String()); answer.Code != http.StatusNotFound {
		t.Errorf("another tenant's receipt: %d", answer.Code)
	}
	for _, choice := range []string{"happened", "wait"} {
		if answer := v.post(decidePath(n.parked), w.form(n.parked, choice, "because")); answer.Code != http.StatusNotFound {
			t.Errorf("deciding on another tenant's: %d", answer.Code)
		}
	}
	if r := w.rows[n.parked.Key]; r.Version != n.parked.Version {
		t.Error("another tenant's receipt was changed")
	}
}

func TestFailuresAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	v := w.signIn(t, operatorKey)
	w.degraded = true
	w.notices = []string{"Faults are injected."}
	if page := v.page("/attention"); !strings.Contains(page, "Redis cannot be asked") || !strings.Contains(page, "Faults are injected.") {
		t.Error("degraded mode and faults are not announced")
	}
	w.breakers["mailer"] = "half-open"
	if page := v.page("/attention"); !strings.Contains(page, "Breaker half-open") {
		t.Error("the breaker is not told of")
	}
	w.broken = errors.New("dial tcp 10.0.0.7:5432: secret detail")
	for _, path := range n.paths() {
		if strings.HasPrefix(path, "/bulk") && !strings.Contains(path, "?") || strings.Contains(path, "lost") {
			continue // they ask the store for nothing
		}
		answer := v.get(path)
		if answer.Code != http.StatusServiceUnavailable || strings.Contains(answer.Body.String(), "10.0.0.7") || !strings.Contains(answer.Body.String(), "says nothing about any action") {
			t.Errorf("%s without a store: %d", path, answer.Code)
		}
	}
}
