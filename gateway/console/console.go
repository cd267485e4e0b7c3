package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway/auth"
	"github.com/latchkey-gateway/latchkey/intent"
)

// Options wire a Console. All fields but Notices and TraceLink are required.
type Options struct {
	Engine    Engine
	Catalogue *downstream.Catalogue
	Breakers  Breakers
	// Keys are the config's keys: they say who may enter, and seal the sessions.
	Keys []auth.Key
	// Notices are told on top of every page, such as an injected fault; nil: none.
	Notices func() []string
	// TraceLink is a trace viewer's address with {trace_id} in it; "": no links.
	TraceLink string
	Log       *slog.Logger
}

// Console serves the pages. It is safe for concurrent use.
type Console struct {
	Options
	keys     *auth.Keys
	seals    map[string][]byte // the key of a session's seal, by id of the API key
	pages    map[string]*template.Template
	mux      *http.ServeMux
	guard    *http.CrossOriginProtection
	streams  chan struct{} // one element for each open event stream
	closing  chan struct{}
	close    sync.Once
	pace     time.Duration // between two items of a bulk run: time to stop it
	interval time.Duration // between two looks for changes
}

// Prefix is the path under which the console is mounted.
const Prefix = "/console"

//go:embed templates/*.html static
var files embed.FS

// New makes a console; the error names a key that auth.New refuses.
func New(o Options) (*Console, error) {
	keys, err := auth.New(o.Keys)
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	c := &Console{
		Options: o, keys: keys, seals: make(map[string][]byte), pages: make(map[string]*template.Template),
		mux: http.NewServeMux(), guard: http.NewCrossOriginProtection(),
		streams: make(chan struct{}, maxStreams), closing: make(chan struct{}),
		pace: 100 * time.Millisecond, interval: time.Second,
	}
	for _, k := range o.Keys {
		if c.seals[k.ID], err = sealKey(k); err != nil {
			return nil, fmt.Errorf("console: key %q: %w", k.ID, err)
		}
	}
	if err := c.parse(); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	c.routes()
	return c, nil
}

// Close ends the event streams, so that a server that shuts down need not wait for them.
// It is idempotent; pages are still served.
func (c *Console) Close() { c.close.Do(func() { close(c.closing) }) }

func (c *Console) routes() {
	c.mux.Handle("GET "+Prefix+"/static/{file}", http.HandlerFunc(c.static))
	c.mux.HandleFunc("GET "+Prefix+"/login", c.showLogin)
	c.mux.HandleFunc("POST "+Prefix+"/login", c.login)
	c.mux.HandleFunc("POST "+Prefix+"/logout", c.logout)

	for pattern, h := range map[string]handler{
		"GET /{$}":                     redirect("/attention"),
		"GET /attention":               c.attention,
		"GET /approvals":               c.approvals,
		"GET /receipts/{key}":          c.receipt,
		"POST /receipts/{key}/decide":  c.operator(c.decide),
		"POST /receipts/{key}/look":    c.operator(c.look),
		"POST /receipts/{key}/settled": c.operator(c.acknowledge),
		"GET /bulk":                    c.bulkPlan,
		"POST /bulk":                   c.operator(c.bulkRun),
		"GET /search":                  c.search,
		"GET /run":                     c.run,
		"GET /tools":                   c.tools,
		"GET /overview":                c.overview,
		"GET /events":                  c.events,
		"GET /":                        nothing,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		c.mux.Handle(method+" "+Prefix+path, c.enter(h))
	}
	c.mux.Handle("GET "+Prefix, http.RedirectHandler(Prefix+"/attention", http.StatusSeeOther))
}

func redirect(to string) handler {
	return func(v *visit) error {
		http.Redirect(v.w, v.r, Prefix+to, http.StatusSeeOther)
		return nil
	}
}

func nothing(*visit) error {
	return intent.Errorf(intent.NotFound, nil, "There is no such page.")
}

// policy lets a page load our own script, style, pictures and events, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// maxForm bounds a posted form: a bulk plan lists up to maxBulk receipts.
const maxForm = 1 << 20

// ServeHTTP serves everything under Prefix.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if err := c.guard.Check(r); err != nil {
		c.fail(&visit{c: c, w: w, r: r, now: time.Now()}, intent.Errorf(intent.Forbidden, err,
			"This request did not come from a page of this console, so nothing was done."))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	c.mux.ServeHTTP(w, r)
}

// static serves our own files. Their address changes with their content.
func (c *Console) static(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("v") != "" {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeFileFS(w, r, files, path.Join("static", r.PathValue("file")))
}

// address returns where a static file is found.
func address(file string) (string, error) {
	b, err := files.ReadFile("static/" + file)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return Prefix + "/static/" + file + "?v=" + hex.EncodeToString(sum[:6]), nil
}

// parse reads the templates: each page with the layout and the parts that all share.
func (c *Console) parse() error {
	shared, err := template.New("").Funcs(template.FuncMap{"static": address, "prefix": func() string { return Prefix }, "dict": dict, "seen": words}).
		ParseFS(files, "templates/layout.html", "templates/parts.html")
	if err != nil {
		return err
	}
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return err
	}
	for _, name := range names {
		t, err := shared.Clone()
		if err == nil {
			t, err = t.ParseFS(files, name)
		}
		if err != nil {
			return err
		}
		c.pages[strings.TrimSuffix(path.Base(name), ".html")] = t
	}
	return nil
}

// show renders a page. It is written only when it is whole.
func (v *visit) show(status int, name, title string, data any) error {
	var b bytes.Buffer
	if err := v.c.pages[name].ExecuteTemplate(&b, "layout", v.page(name, title, data)); err != nil {
		return fmt.Errorf("console: page %s: %w", name, err)
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	v.w.Write(b.Bytes())
	return nil
}

// statuses are the HTTP statuses of the console's own pages.
var statuses = map[intent.Category]int{
	intent.BadRequest: http.StatusBadRequest, intent.NotFound: http.StatusNotFound, intent.Forbidden: http.StatusForbidden,
	intent.TooLarge: http.StatusRequestEntityTooLarge, intent.StateConflict: http.StatusConflict,
	intent.PreconditionFailed: http.StatusPreconditionFailed, intent.NotSent: http.StatusServiceUnavailable,
}

// fail shows an error page. The cause goes to the log.
func (c *Console) fail(v *visit, err error) {
	e := asError(err)
	status, ok := statuses[e.Category]
	if !ok {
		status = http.StatusInternalServerError
	}
	if status >= http.StatusInternalServerError {
		c.Log.Warn("a page of the console failed", "path", v.r.URL.Path, "error", err)
	}
	if err := v.show(status, "error", http.StatusText(status), struct {
		Status int
		Text   string
	}{status, e.Public}); err != nil {
		c.Log.Error("an error page of the console failed", "error", err)
		http.Error(v.w, e.Public, status)
	}
}

func asError(err error) *intent.Error {
	if e, ok := errors.AsType[*intent.Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, intent.ErrNone):
		return intent.Errorf(intent.NotFound, err, "There is no such receipt.")
	case errors.Is(err, intent.ErrBadKey):
		return intent.Errorf(intent.NotFound, err, "A receipt's key is 64 hex digits.")
	case errors.Is(err, intent.ErrBadCursor):
		return intent.Errorf(intent.BadRequest, err, "That page of the list is gone. Search again.")
	}
	return intent.Errorf(intent.NotSent, err, "The gateway cannot read its store at the moment. That says nothing about any action; try again.")
}

// dict hands a part of a page more than one value.
func dict(pairs ...any) map[string]any {
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}
