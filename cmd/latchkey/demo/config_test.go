package demo_test

import (
	"strings"
	"testing"

	"github.com/latchkey-gateway/latchkey/cmd/latchkey/demo"
	"github.com/latchkey-gateway/latchkey/gateway/config"
	"github.com/latchkey-gateway/latchkey/intent"
)

func options() demo.ConfigOptions {
	return demo.ConfigOptions{
		SealKey: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		DemoURL: "http://127.0.0.1:9100", StorePath: "dev/latchkey.db",
		Keys: []demo.ConfigKey{{ID: "a", SHA256: strings.Repeat("0f", 32), Tenant: "dev", Roles: []string{"agent", "operator"}}},
	}
}

func TestConfigLoadsWithToolsOfEveryClass(t *testing.T) {
	t.Parallel()
	cfg, warnings, err := config.Parse("demo.yaml", demo.Config(options()), config.Options{})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v %v", err, warnings)
	}
	if cfg.Redis.Mode != "embedded" || cfg.Store.Driver != "sqlite" || cfg.Listen != "127.0.0.1:8080" || cfg.Region != "local" ||
		len(cfg.Auth.Keys) != 1 || len(cfg.Auth.Keys[0].Roles) != 2 {
		t.Errorf("%+v", cfg)
	}
	catalogue, err := cfg.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		class      intent.Class
		durability intent.Durability
		onUnknown  string
		header     string
		guarded    bool
		approved   bool
	}{
		"search_contacts":    {intent.ReadOnly, 0, "", "", false, false},
		"update_contact":     {intent.Idempotent, intent.Durable, "retry", "X-Reference", false, false},
		"send_invoice_email": {intent.Effectful, intent.Durable, "lookup", "", true, false},
		"charge_card":        {intent.Effectful, intent.Durable, "retry", "Idempotency-Key", true, false},
		"add_note":           {intent.Effectful, intent.Durable, "park", "", true, false},
		"wire_transfer":      {intent.Irreversible, intent.Durable, "lookup", "X-Reference", true, true},
	} {
		tool, ok := catalogue.Tool(name)
		if !ok {
			t.Errorf("there is no %s", name)
			continue
		}
		if tool.Class != want.class || tool.Durability != want.durability || string(tool.OnUnknown) != want.onUnknown ||
			tool.ForwardHeader != want.header || tool.Rules.StepGuard != want.guarded || (tool.Approval != nil) != want.approved {
			t.Errorf("%s is %v, %v, on unknown %q, forwards in %q, guard %v, approval %v; want %+v", name, tool.Class, tool.Durability,
				tool.OnUnknown, tool.ForwardHeader, tool.Rules.StepGuard, tool.Approval, want)
		}
	}
	if tools := catalogue.Tools(); len(tools) != 6 {
		t.Errorf("%d tools, want 6", len(tools))
	}
}

func TestConfigQuotesWhatItIsGiven(t *testing.T) {
	t.Parallel()
	for _, path := range []string{`C:\data\latchkey.db`, `it's "here": #1`, "päth/${env:HOME}/x", "- a", "{}", "yes", "1e3", "<&>\u2028"} {
		o := options()
		o.StorePath = path
		cfg, _, err := config.Parse("demo.yaml", demo.Config(o), config.Options{})
		if err != nil {
			t.Errorf("%q: %v", path, err)
		} else if cfg.Store.Path != path {
			t.Errorf("%q became %q", path, cfg.Store.Path)
		}
	}
}
