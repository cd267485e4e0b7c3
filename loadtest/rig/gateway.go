package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"time"
)

// Gateway is a running `latchkey serve`.
type Gateway struct {
	*Process
	Addr     string // the agents' API
	Operator string

	name, path string
	args       []string
	config     map[string]any
}

// Build compiles the gateway of this module into the rig's directory and returns its path.
func (r *Rig) Build(ctx context.Context) (string, error) {
	path := r.path("latchkey")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/latchkey-gateway/latchkey/cmd/latchkey")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("rig: go build ./cmd/latchkey: %w\n%s", err, out)
	}
	return path, nil
}

// StartGateway starts a replica from the program at path. config becomes its config file,
// with the two listening addresses filled in; it is not changed.
func (r *Rig) StartGateway(ctx context.Context, name, path string, config map[string]any) (*Gateway, error) {
	g, err := r.LaunchGateway(name, path, config)
	if err != nil {
		return nil, err
	}
	return g, await(ctx, g.Process, 30*time.Second, g.ready)
}

// LaunchGateway is StartGateway without waiting until it is ready, for starts in the middle
// of an outage. Further args go to its command line.
func (r *Rig) LaunchGateway(name, path string, config map[string]any, args ...string) (*Gateway, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	operator, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	full := map[string]any{"listen": addr, "operator_listen": operator}
	maps.Copy(full, config)
	text, err := json.MarshalIndent(full, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("rig: config: %w", err)
	}
	file := r.path(name + ".json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	p, err := r.Start(Spec{Name: name, Path: path, Args: append([]string{"serve", "--config", file}, args...)})
	if err != nil {
		return nil, err
	}
	addr, operator = full["listen"].(string), full["operator_listen"].(string) // config may set them
	return &Gateway{Process: p, Addr: addr, Operator: operator, name: name, path: path, args: args, config: full}, nil
}

// RelaunchGateway starts a gateway that has ended again, on the same addresses.
func (r *Rig) RelaunchGateway(g *Gateway) (*Gateway, error) {
	return r.LaunchGateway(g.name, g.path, g.config, g.args...)
}

// AwaitReady waits until the gateway is ready, or limit has passed.
func (g *Gateway) AwaitReady(ctx context.Context, limit time.Duration) error {
	return await(ctx, g.Process, limit, g.ready)
}

func (g *Gateway) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, err := Get(ctx, "http://"+g.Addr+"/readyz", "")
	return err
}

// Get fetches url with an optional bearer key; an answer other than 200 is an error.
func Get(ctx context.Context, url, bearer string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %.300s", url, resp.Status, body)
	}
	return body, err
}
