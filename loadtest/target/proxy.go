package target

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// NewProxy returns a bare httputil.ReverseProxy in front of upstream. It does nothing but
// forward, over as many kept connections as there are callers: with the transport's own
// default of two it would mostly measure dialling.
func NewProxy(upstream *url.URL, connections int) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		Transport: &http.Transport{
			MaxIdleConns:        connections,
			MaxIdleConnsPerHost: connections,
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true,
		},
	}
}
