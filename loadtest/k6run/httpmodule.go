package k6run

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/grafana/sobek"
)

// request is one request as a script described it, read on the VU's goroutine.
type request struct {
	method, url string
	body        *string
	headers     map[string]string
	tags        map[string]string
	timeout     time.Duration
}

// response is what came back; status 0 means that nothing did.
type response struct {
	request request
	status  int
	headers map[string]string
	body    string
	took    time.Duration
	err     error
}

func (v *vu) httpModule() *hostModule {
	one := func(method string, hasBody bool) func(sobek.FunctionCall) sobek.Value {
		return func(call sobek.FunctionCall) sobek.Value {
			args := call.Arguments[1:]
			r := request{method: method, url: call.Argument(0).String()}
			if hasBody && len(args) > 0 {
				v.readBody(&r, args[0])
				args = args[1:]
			}
			if len(args) > 0 {
				v.readParams(&r, args[0])
			}
			return v.present(v.send(r))
		}
	}
	return newHostModule(v.rt, map[string]any{
		"get":  one(http.MethodGet, false),
		"post": one(http.MethodPost, true),
		"batch": func(call sobek.FunctionCall) sobek.Value {
			return v.batch(call.Argument(0).ToObject(v.rt))
		},
		"expectedStatuses": func(call sobek.FunctionCall) sobek.Value {
			return v.rt.ToValue(v.readStatuses(call.Arguments))
		},
		"setResponseCallback": func(call sobek.FunctionCall) sobek.Value {
			expected, ok := call.Argument(0).Export().(statuses)
			if !ok {
				v.throw("setResponseCallback takes what expectedStatuses returns")
			}
			v.expected = expected
			return sobek.Undefined()
		},
	})
}

// statuses are ranges of HTTP statuses, both ends included.
type statuses [][2]int

func (s statuses) contain(status int) bool {
	for _, r := range s {
		if r[0] <= status && status <= r[1] {
			return true
		}
	}
	return false
}

func (v *vu) readStatuses(args []sobek.Value) statuses {
	var s statuses
	for _, a := range args {
		if n, ok := a.Export().(int64); ok {
			s = append(s, [2]int{int(n), int(n)})
			continue
		}
		o := a.ToObject(v.rt)
		s = append(s, [2]int{int(o.Get("min").ToInteger()), int(o.Get("max").ToInteger())})
	}
	return s
}

// batch makes its requests at once, as far as the options allow.
func (v *vu) batch(list *sobek.Object) sobek.Value {
	var requests []request
	for i := range list.Get("length").ToInteger() {
		item := list.Get(strconv.FormatInt(i, 10)).ToObject(v.rt)
		r := request{method: item.Get("method").String(), url: item.Get("url").String()}
		v.readBody(&r, item.Get("body"))
		v.readParams(&r, item.Get("params"))
		requests = append(requests, r)
	}
	slots := make(chan struct{}, min(v.run.options.Batch, v.run.options.BatchPerHost))
	responses := make([]response, len(requests))
	var all sync.WaitGroup
	for i, r := range requests {
		slots <- struct{}{}
		all.Go(func() {
			responses[i] = v.send(r)
			<-slots
		})
	}
	all.Wait()
	presented := make([]any, len(responses))
	for i, r := range responses {
		presented[i] = v.present(r)
	}
	return v.rt.NewArray(presented...)
}

func (v *vu) readBody(r *request, value sobek.Value) {
	if value == nil || sobek.IsNull(value) || sobek.IsUndefined(value) {
		return
	}
	r.body = new(value.String())
}

// readParams refuses what the stand-in does not do: silently ignoring it would make the
// run another one than k6's.
func (v *vu) readParams(r *request, value sobek.Value) {
	r.timeout = time.Minute
	if value == nil || sobek.IsNull(value) || sobek.IsUndefined(value) {
		return
	}
	params := value.ToObject(v.rt)
	for _, name := range params.Keys() {
		member := params.Get(name)
		switch name {
		case "headers":
			r.headers = v.readStrings(member)
		case "tags":
			r.tags = v.readStrings(member)
		case "timeout":
			d, err := time.ParseDuration(member.String())
			if err != nil {
				v.throw("timeout: " + err.Error())
			}
			r.timeout = d
		case "redirects":
			if member.ToInteger() != 0 {
				v.throw("the stand-in follows no redirects")
			}
		case "responseType":
			if member.String() != "text" {
				v.throw("the stand-in has text responses alone")
			}
		default:
			v.throw("the stand-in has no http parameter " + name)
		}
	}
}

func (v *vu) readStrings(value sobek.Value) map[string]string {
	o := value.ToObject(v.rt)
	m := map[string]string{}
	for _, name := range o.Keys() {
		m[name] = o.Get(name).String()
	}
	return m
}

// send may run beside the VU's goroutine and touches nothing of its runtime.
func (v *vu) send(r request) (res response) {
	res.request = r
	var body io.Reader
	if r.body != nil {
		body = strings.NewReader(*r.body)
	}
	began := time.Now()
	defer func() { res.took = time.Since(began) }()
	req, err := http.NewRequestWithContext(v.run.ctx, r.method, r.url, body)
	if err != nil {
		res.err = err
		return res
	}
	for name, value := range r.headers {
		req.Header.Set(name, value)
	}
	client := http.Client{
		Transport: v.run.transport, Timeout: r.timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(req)
	if err != nil {
		res.err = err
		return res
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		res.err = err
		return res
	}
	res.status, res.body = answer.StatusCode, string(text)
	res.headers = map[string]string{}
	for name, values := range answer.Header {
		res.headers[name] = strings.Join(values, ", ")
	}
	return res
}

// present counts a response and makes it what scripts see.
func (v *vu) present(res response) sobek.Value {
	tags := []map[string]string{v.tags(), {"method": res.request.method, "status": strconv.Itoa(res.status)}, res.request.tags}
	ms := float64(res.took) / float64(time.Millisecond)
	v.run.metrics.add("http_reqs", 1, tags...)
	v.run.metrics.add("http_req_duration", ms, tags...)
	v.run.metrics.add("http_req_failed", number(!v.expected.contain(res.status)), tags...)

	o := v.rt.NewObject()
	members := map[string]any{
		"status": res.status, "headers": res.headers, "url": res.request.url, "error": "",
		"timings": map[string]any{"duration": ms}, "body": res.body,
	}
	if res.err != nil {
		members["error"], members["body"], members["headers"] = fmt.Sprint(res.err), nil, map[string]string{}
	}
	for name, member := range members {
		_ = o.Set(name, member) // a fresh object refuses nothing
	}
	return o
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
