package downstream

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Both send the same request to the same server and read the whole answer; the difference is
// what the client costs. The server's share is in both.
func BenchmarkSend(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"em_1"}`)
	}))
	b.Cleanup(server.Close)
	const args = `{"invoice_id":"inv-1","to":"a@example.com","memo":"thanks"}`

	b.Run("latchkey", func(b *testing.B) {
		spec := emailSpec()
		spec.ForwardKey = &ForwardKeySpec{Header: "Idempotency-Key"}
		c, tool := client(b, server.URL, spec, Options{})
		in := call(b, tool, args)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				o := c.Execute(b.Context(), in)
				if v := Classify(tool, o); v.Outcome == nil {
					b.Errorf("%+v", o)
					return
				}
			}
		})
	})
	b.Run("net-http", func(b *testing.B) {
		plain := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: 5 * time.Second}
		b.Cleanup(plain.CloseIdleConnections)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				r, err := http.NewRequest("POST", server.URL+"/emails", strings.NewReader(args))
				if err != nil {
					b.Error(err)
					return
				}
				r.Header.Set("Content-Type", "application/json")
				answer, err := plain.Do(r)
				if err != nil {
					b.Error(err)
					return
				}
				io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		})
	})
}

func BenchmarkClassify(b *testing.B) {
	o := Observed{Sent: true, HTTPStatus: 200, Header: http.Header{"Content-Type": {"application/json"}, "Date": {"x"}}, Body: []byte("{}")}
	tool := &Tool{}
	b.ReportAllocs()
	for b.Loop() {
		Classify(tool, o)
	}
}

func BenchmarkAdmit(b *testing.B) {
	tool, _ := load(b, "http://x", emailSpec()).Tool("send")
	c := NewClient(load(b, "http://x", emailSpec()), Options{})
	b.ReportAllocs()
	for b.Loop() {
		done, _ := c.Admit(tool)
		done(Observed{Sent: true, HTTPStatus: 200}, Verdict{Status: 4})
	}
}
