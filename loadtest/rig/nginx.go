package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Balancer is a running nginx.
type Balancer struct {
	*Process
	Addr    string
	Version string
}

// nginxConfig is one process, so that its end is the end of all of it. It passes a request
// on to another replica when the first one fails, also a POST that may have arrived: that is
// what many balancers in the field are set to do.
const nginxConfig = `daemon off;
master_process off;
pid %[1]s/nginx.pid;
error_log stderr error;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path %[1]s/nginx-body;
  proxy_temp_path %[1]s/nginx-proxy;
  fastcgi_temp_path %[1]s/nginx-fastcgi;
  uwsgi_temp_path %[1]s/nginx-uwsgi;
  scgi_temp_path %[1]s/nginx-scgi;
  client_body_buffer_size 64k;
  keepalive_requests 100000;
  upstream gateways {
    least_conn;
    keepalive 64;
%[3]s
  }
  server {
    listen %[2]s backlog=4096;
    location / {
      proxy_pass http://gateways;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_connect_timeout 1s;
      proxy_read_timeout 8s;
      proxy_next_upstream error timeout http_502 non_idempotent;
      proxy_next_upstream_tries 2;
    }
  }
}
`

// StartNginx starts nginx in front of the gateways. Without nginx the error is ErrMissing.
func (r *Rig) StartNginx(ctx context.Context, gateways []string) (*Balancer, error) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		if path = "/usr/sbin/nginx"; !executable(path) {
			return nil, fmt.Errorf("rig: nginx is %w", ErrMissing)
		}
	}
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	var servers strings.Builder
	for _, g := range gateways {
		fmt.Fprintf(&servers, "    server %s max_fails=3 fail_timeout=1s;\n", g)
	}
	file := r.path("nginx.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, nginxConfig, r.Dir, addr, servers.String()), 0o644); err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	version, _ := exec.CommandContext(ctx, path, "-v").CombinedOutput() // for the report alone
	p, err := r.Start(Spec{Name: "nginx", Path: path, Args: []string{"-c", file, "-p", r.Dir, "-e", "stderr"}})
	if err != nil {
		return nil, err
	}
	b := &Balancer{Process: p, Addr: addr, Version: strings.TrimSpace(strings.TrimPrefix(string(version), "nginx version: "))}
	return b, await(ctx, p, 10*time.Second, func(ctx context.Context) error { return listening(ctx, addr) })
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&0o111 != 0
}

func listening(ctx context.Context, addr string) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err == nil {
		c.Close()
	}
	return err
}
