package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/latchkey-gateway/latchkey/cmd/latchkey/demo"
	"github.com/latchkey-gateway/latchkey/gateway/auth"
	"github.com/latchkey-gateway/latchkey/gateway/config"
)

// The bearer keys of latchkey dev. They are no secret: the gateway listens on loopback.
const (
	devAgentKey    = "dev-agent"
	devViewerKey   = "dev-viewer"
	devOperatorKey = "dev-operator"
)

type devOptions struct {
	data, listen, operatorListen, demoListen string
}

func newDevCmd() *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything embedded: gateway, Redis, SQLite and a demo downstream",
		Long: "Run the gateway with nothing else installed: Redis and SQLite live in this process, and a demo downstream\n" +
			"(an invoice mailer, a card charger, a CRM, a bank) keeps a ledger of what really happened.",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&o.data, "data", "", "`directory` to keep receipts and the ledger in (default: a temporary one, gone at the end)")
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:8080", "agents' `address`")
	cmd.Flags().StringVar(&o.operatorListen, "operator-listen", "127.0.0.1:8081", "operators' `address`")
	cmd.Flags().StringVar(&o.demoListen, "demo-listen", "127.0.0.1:9100", "demo downstream's `address`")
	level := logLevelFlag(cmd, "warn")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log, err := newLog(cmd.ErrOrStderr(), *level)
		if err != nil {
			return err
		}
		if o.data == "" {
			dir, err := os.MkdirTemp("", "latchkey-dev-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			o.data = dir
		} else if err := os.MkdirAll(o.data, 0o700); err != nil {
			return fmt.Errorf("--data: %w", err)
		}
		services, err := demo.New(demo.Options{LedgerFile: filepath.Join(o.data, "ledger.jsonl")})
		if err != nil {
			return err
		}
		defer services.Close()
		listener, err := net.Listen("tcp", o.demoListen)
		if err != nil {
			return fmt.Errorf("--demo-listen: %w", err)
		}
		downstream := &http.Server{Handler: services, ReadHeaderTimeout: 10 * time.Second}
		go downstream.Serve(listener)
		defer downstream.Close()
		demoURL := "http://" + listener.Addr().String()

		seal, err := devSealKey(filepath.Join(o.data, "seal.key"))
		if err != nil {
			return err
		}
		cfg, _, err := config.Parse("demo.yaml", devConfig(o, demoURL, seal), config.Options{})
		if err != nil {
			return err
		}
		p, err := start(cmd.Context(), cfg, log)
		if err != nil {
			return err
		}
		banner(cmd.OutOrStdout(), "http://"+p.agents.Addr().String(), "http://"+p.operators.Addr().String(), demoURL, cmd.Flags().Changed("data"), o.data)
		return ignoreInterrupt(p.serve(cmd.Context()))
	}
	return cmd
}

// devSealKey reads the key that seals redacted arguments, or makes one.
func devSealKey(path string) (string, error) {
	kept, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(kept)), nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	key := make([]byte, 32)
	rand.Read(key)
	text := hex.EncodeToString(key)
	return text, os.WriteFile(path, []byte(text+"\n"), 0o600)
}

func devConfig(o devOptions, demoURL, seal string) []byte {
	key := func(bearer, role string) demo.ConfigKey {
		return demo.ConfigKey{ID: bearer, SHA256: auth.Hash(bearer), Tenant: "dev", Roles: []string{role}}
	}
	return demo.Config(demo.ConfigOptions{
		DemoURL: demoURL, StorePath: filepath.Join(o.data, "latchkey.db"), SealKey: seal, Listen: o.listen, OperatorListen: o.operatorListen,
		Keys: []demo.ConfigKey{key(devAgentKey, "agent"), key(devViewerKey, "viewer"), key(devOperatorKey, "operator")},
	})
}

// banner says where everything is and what to try first.
func banner(w io.Writer, agents, operators, demoURL string, kept bool, data string) {
	where := "gone at the end; --data DIR keeps it"
	if kept {
		where = "kept in " + data
	}
	call := func(tool, body string) string {
		return fmt.Sprintf(`  curl -s %s/v1/tools/%s/calls -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' \
    -d '%s'`, agents, tool, devAgentKey, body)
	}
	mail := func(step, memo string) string {
		return call("send_invoice_email", fmt.Sprintf(`{"run_id":"run-1","step_id":"%s","args":{"invoice_id":"inv-%s","to":"ada@example.com","memo":"%s"}}`, step, step, memo))
	}
	fmt.Fprintf(w, `latchkey dev: the gateway with Redis, SQLite and a demo downstream in one process

  agents     %s   Authorization: Bearer %s
  operators  %s   Authorization: Bearer %s (or %s, who may only read)
  console    %s/console   enter with the key %s
  demo       %s   what really happened: %s/ledger
  data       %s

Send an invoice:

%s

Send exactly that again: "replayed":true, and still one mail in the ledger.
Send one whose answer is lost: it comes back "unknown", with what an agent should do. Moments later a lookup has found
the mail, and the same call gets its result; there never is a second mail:

%s

Ask for a wire transfer: a person approves it in the console first.

%s

What really happened:

  curl -s %s/ledger

Ctrl-C ends it.
`, agents, devAgentKey, operators, devOperatorKey, devViewerKey, operators, devOperatorKey, demoURL, demoURL, where,
		mail("1", "thank you"), mail("2", "[lose the answer]"),
		call("wire_transfer", `{"run_id":"run-1","step_id":"3","args":{"payment_id":"p-1","to_account":"DE02100100100006820101","amount":9900,"currency":"EUR"}}`),
		demoURL)
}

func ignoreInterrupt(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
