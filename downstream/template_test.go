package downstream

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/latchkey-gateway/latchkey/intent"
)

// expand renders one template; err is what a call would be refused with.
func expand(t testing.TB, spec RequestSpec, args string) (target, body string, err *intent.Error) {
	t.Helper()
	tool := emailSpec()
	tool.Request = spec
	loaded, _ := load(t, "http://x", tool).Tool("send")
	var m message
	in := call(t, loaded, args)
	if err := m.compose(&in); err != nil {
		return "", "", err
	}
	line, _, _ := strings.Cut(string(m.bytes), "\r\n")
	return strings.Fields(line)[1], string(m.body), nil
}

func TestPathAndQuery(t *testing.T) {
	t.Parallel()
	key := intent.Key{1, 2, 3}.String()
	tests := []struct{ path, args, want string }{
		{"/emails", `{}`, "/emails"},
		{"/", `{}`, "/"},
		{"/emails/", `{}`, "/emails/"},
		{"/runs/{run_id}/{step_id}/{key}", `{}`, "/runs/run-42/7/" + key},
		{"/a/{args.x}", `{"x":"y"}`, "/a/y"},
		{"/a/{args.x.y.0}", `{"x":{"y":[7]}}`, "/a/7"},
		{"/a/v-{args.x}.json", `{"x":"y"}`, "/a/v-y.json"},
		{"/a/{args.x}{args.y}", `{"x":"","y":"z"}`, "/a/z"},
		{"/a/{args.x}", `{"x":"b/c?d#e%20f&g=h;i"}`, "/a/b%2Fc%3Fd%23e%2520f%26g%3Dh%3Bi"},
		{"/a/{args.x}", `{"x":"%2e%2e"}`, "/a/%252e%252e"},
		{"/a/{args.x}", `{"x":"..."}`, "/a/..."},
		{"/a/{args.x}", `{"x":"é "}`, "/a/%C3%A9%20"},
		{"/a/{args.x}", `{"x":9007199254740993}`, "/a/9007199254740993"},
		{"/a/{args.x}", `{"x":true}`, "/a/true"},
		{"/a?x={args.x}&y={args.y}", `{"x":"1&y=2","y":" +"}`, "/a?x=1%26y%3D2&y=%20%2B"},
		{"/a?x={args.x}&y={args.y}", `{"y":"2"}`, "/a?y=2"},
		{"/a?x={args.x}&y={args.y}", `{"x":"","y":"2"}`, "/a?x=&y=2"},
		{"/a?x={args.x}", `{}`, "/a"},
		{"/a?x=p:{args.x}/q?&flag", `{"x":1}`, "/a?x=p:1/q?&flag"},
		{"/a%20b;v=1", `{}`, "/a%20b;v=1"},
	}
	for _, tt := range tests {
		if got, _, err := expand(t, RequestSpec{Method: "POST", Path: tt.path}, tt.args); err != nil || got != tt.want {
			t.Errorf("%s with %s: %q (%v), want %q", tt.path, tt.args, got, err, tt.want)
		}
	}
}

func TestWhatWouldChangeThePathIsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct{ path, args, pointer string }{
		{"/a/{args.x}", `{"x":""}`, "/x"},
		{"/a/{args.x}", `{"x":"."}`, "/x"},
		{"/a/{args.x}", `{"x":".."}`, "/x"},
		{"/a/{args.x}/b", `{"x":"../../admin"}`, "/x"},
		{"/a/{args.x}", `{"x":"b/../c"}`, "/x"},
		{"/a/{args.x}", `{"x":"..\\c"}`, "/x"},
		{"/a/.{args.x}", `{"x":"."}`, "/x"},
		{"/a/%2e{args.x}", `{"x":"."}`, "/x"},
		{"/a/{args.x}{args.y}", `{"x":".","y":"."}`, "/x"},
		{"/a/{args.x}", `{"x":"a\u0000b"}`, "/x"},
		{"/a/{args.x}", `{"x":"a\r\nHost: evil"}`, "/x"},
		{"/a/{args.x}", `{}`, "/x"},
		{"/a/{args.x}", `{"x":null}`, "/x"},
		{"/a/{args.x.y}", `{"x":{"y":["secret"]}}`, "/x/y"},
		{"/a/{args.x}", `{"x":{"secret":1}}`, "/x"},
		{"/a?x={args.x}", `{"x":["secret"]}`, "/x"},
		{"/a?x=1{args.x}", `{}`, "/x"},
	}
	for _, tt := range tests {
		_, _, err := expand(t, RequestSpec{Method: "POST", Path: tt.path}, tt.args)
		if err == nil || err.Category != intent.InvalidArguments || err.Pointer != tt.pointer || strings.Contains(err.Public, "secret") {
			t.Errorf("%s with %s: %v at %q, want a refusal at %s", tt.path, tt.args, err, err.Pointer, tt.pointer)
		}
	}
}

// What a call would be refused for is found before anything is claimed or stored.
func TestValidateTriesTheTemplate(t *testing.T) {
	t.Parallel()
	spec := emailSpec()
	spec.Request = RequestSpec{Method: "POST", Path: "/a/{args.x}/{run_id}?k={key}", Template: []byte(`{"memo":"re: {args.memo}"}`)}
	tool, _ := load(t, "http://x", spec).Tool("send")
	for args, pointer := range map[string]string{`{"x":"..","memo":"m"}`: "/x", `{"x":"a"}`: "/memo"} {
		if err := tool.Validate(parse(t, args)); err == nil || err.Pointer != pointer {
			t.Errorf("%s: %v", args, err)
		}
	}
	if err := tool.Validate(parse(t, `{"x":"a","memo":"m"}`)); err != nil {
		t.Error(err)
	}
	if !tool.NeedsRunID || tool.NeedsStepID {
		t.Errorf("needs run %v, step %v", tool.NeedsRunID, tool.NeedsStepID)
	}
}

func TestARequestThatCannotBeMadeIsNotSent(t *testing.T) {
	t.Parallel()
	spec := emailSpec()
	spec.Request.Path = "/runs/{run_id}"
	c, tool := client(t, "http://127.0.0.1:1", spec, Options{})
	in := call(t, tool, `{}`)
	in.RunID = ""
	o := c.Execute(t.Context(), in)
	if v := Classify(tool, o); o.Sent || o.NotSentWhy != "request" || v.Status != intent.Rejected || v.Retry != intent.RetryCorrected || !v.Unsent {
		t.Errorf("%+v %+v", o, v)
	}
}

func TestBody(t *testing.T) {
	t.Parallel()
	const args = `{"b":1.0,"a":9007199254740993,"s":"x\"y","o":{"k":[1,null]},"n":null,"t":true}`
	tests := []struct{ body, template, want string }{
		{body: "args", want: args},
		{body: "", want: args},
		{body: "none", want: ""},
		{template: `{"fixed":[1.0,"x",{"y":null}]}`, want: `{"fixed":[1.0,"x",{"y":null}]}`},
		{template: `{"a":"{args.a}","o":"{args.o}","n":"{args.n}","t":"{args.t}"}`, want: `{"a":9007199254740993,"o":{"k":[1,null]},"n":null,"t":true}`},
		{template: `{"gone":"{args.gone}","a":"{args.a}","l":["{args.gone}","{args.b}"],"deep":{"gone":"{args.gone.x}"}}`, want: `{"a":9007199254740993,"l":[1.0],"deep":{}}`},
		{template: `{"s":"<{args.s}> {args.a} {args.t}"}`, want: `{"s":"<x\"y> 9007199254740993 true"}`},
		{template: `{"ref":"{key}","run":"{run_id}/{step_id}"}`, want: `{"ref":"` + intent.Key{1, 2, 3}.String() + `","run":"run-42/7"}`},
		{template: `{"brace":"{{args.a} }","b":"x{{{args.a}}"}`, want: `{"brace":"{args.a} }","b":"x{9007199254740993}"}`},
		{template: `{}`, want: `{}`},
	}
	for _, tt := range tests {
		spec := RequestSpec{Method: "POST", Path: "/", Body: tt.body}
		if tt.template != "" {
			spec.Template = []byte(tt.template)
		}
		if _, got, err := expand(t, spec, args); err != nil || got != tt.want {
			t.Errorf("%s%s: %s (%v), want %s", tt.body, tt.template, got, err, tt.want)
		}
	}
	for _, template := range []string{`{"x":"a{args.gone}"}`, `{"x":"a{args.o}"}`, `{"x":"a{args.n}"}`} {
		if _, _, err := expand(t, RequestSpec{Method: "POST", Path: "/", Template: []byte(template)}, args); err == nil {
			t.Errorf("%s was filled in", template)
		}
	}
}

func TestTemplatesAreCheckedWhenLoaded(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "emails", "//evil.example", "/a//b", "/a/../b", "/a/./b", "/a/%2e%2e/b", "/a/..%2fb", "/a b", "/é", "/a%", "/a%zz", "/a#b", "/a?b#c", "/{", "/}", "/{}", "/{arg.x}",
		"/{args}", "/{args.}", "/{args.a..b}", "/{args. a}", "/{KEY}", "/{{key}}", "/a?{args.x}=1", "/a?=1", "/a?b=\r\n", "/a\r\nX: y", "/a?x={args.y", "/a?&"} {
		if _, err := NewCatalogue([]Spec{{Name: "mail", BaseURL: "http://x"}}, []ToolSpec{{Name: "s", Class: "effectful", Downstream: "mail",
			Request: RequestSpec{Method: "POST", Path: path}}}); !slices.Contains(fields(err), "tools.s.request.path") {
			t.Errorf("path %q: %v", path, err)
		}
	}
	for _, template := range []string{`[]`, `"args"`, `{`, `{"a":1,"a":2}`, `{"{args.x}":1}`, `{"x":"{args}"}`, `{"x":"{nope}"}`, `{"x":["{"]}`} {
		if _, err := NewCatalogue([]Spec{{Name: "mail", BaseURL: "http://x"}}, []ToolSpec{{Name: "s", Class: "effectful", Downstream: "mail",
			Request: RequestSpec{Method: "POST", Path: "/", Template: []byte(template)}}}); !slices.Contains(fields(err), "tools.s.request.body") {
			t.Errorf("template %s: %v", template, err)
		}
	}
}

// Whatever the arguments are, the message is one request with the template's path structure,
// and the server reads back exactly the values that were filled in.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"a", "", ".", "..", "../..", "a/b", "%2e%2e", "a\\..\\b", "?x=1", "#", "a\r\nHost: evil\r\n\r\nPOST / HTTP/1.1", "\x00", "é", "\u202e", "{key}", "&r=2", "..;", "\xff"} {
		f.Add(seed, "x", "z")
		f.Add("x", seed, seed)
	}
	spec := emailSpec()
	spec.Request = RequestSpec{Method: "POST", Path: "/a/{args.x}/b-{args.y}.json/c?q={args.z}&r=1{args.x}", Template: []byte(`{"v":"{args.x}","w":"<{args.z}>"}`)}
	spec.ForwardKey = &ForwardKeySpec{Header: "Idempotency-Key"}
	tool, _ := load(f, "http://x", spec).Tool("send")
	f.Fuzz(func(t *testing.T, x, y, z string) {
		args := intent.ObjectValue(intent.Member{Name: "x", Value: intent.StringValue(x)}, intent.Member{Name: "y", Value: intent.StringValue(y)},
			intent.Member{Name: "z", Value: intent.StringValue(z)})
		in := Call{Tool: tool, Args: args, Key: intent.Key{9}, RunID: "r", StepID: "s"}
		var m message
		if err := m.compose(&in); err != nil {
			if tool.Validate(args) == nil {
				t.Fatalf("validated, but refused when composed: %v", err)
			}
			return
		}
		reader := bufio.NewReader(bytes.NewReader(m.bytes))
		r, err := http.ReadRequest(reader)
		if err != nil {
			t.Fatalf("%q is no request: %v", m.bytes, err)
		}
		body, _ := io.ReadAll(r.Body)
		if rest, _ := io.ReadAll(reader); len(rest) > 0 {
			t.Fatalf("something follows the request: %q", rest)
		}
		if _, err := intent.Parse(body); err != nil {
			t.Fatalf("body %q: %v", body, err)
		}
		if r.Host != "x" || len(r.Header["Idempotency-Key"]) != 1 || r.Header.Get("Idempotency-Key") != in.Key.String() {
			t.Fatalf("host %q, headers %v", r.Host, r.Header)
		}
		segments := strings.Split(r.URL.EscapedPath(), "/")
		if len(segments) != 5 || segments[1] != "a" || segments[4] != "c" {
			t.Fatalf("path structure changed: %q", segments)
		}
		for i, want := range map[int]string{2: x, 3: "b-" + y + ".json"} {
			if got, err := url.PathUnescape(segments[i]); err != nil || got != want {
				t.Fatalf("segment %q reads %q, want %q", segments[i], got, want)
			}
		}
		for part := range strings.SplitSeq(strings.ReplaceAll(r.URL.Path, `\`, "/"), "/") {
			if part == ".." || part == "." {
				t.Fatalf("a server that decodes first would climb: %q", r.URL.Path)
			}
		}
		q, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil || len(q) != 2 || !slices.Equal(q["q"], []string{z}) || !slices.Equal(q["r"], []string{"1" + x}) {
			t.Fatalf("query %q (%v)", r.URL.RawQuery, err)
		}
	})
}
