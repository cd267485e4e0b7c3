package demo

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"strings"
	"text/template"
)

//go:embed demo.yaml
var configText string

var configTemplate = template.Must(template.New("demo.yaml").Funcs(template.FuncMap{
	"quote": quote,
	"list":  quoteAll,
}).Parse(configText))

// ConfigOptions are what a config of the demo is filled with.
type ConfigOptions struct {
	DemoURL        string // where the Demo listens: http://host:port
	StorePath      string // SQLite file
	SealKey        string // 64 hex digits: the card's number is needed again for a retry
	Region         string // default local
	Listen         string // default 127.0.0.1:8080
	OperatorListen string // default 127.0.0.1:8081
	Keys           []ConfigKey
}

// ConfigKey is one credential. SHA256 is hex, of the bearer key.
type ConfigKey struct {
	ID, SHA256, Tenant string
	Roles              []string
}

// Config is a complete gateway configuration, as YAML: everything embedded, and tools of
// every class that act on the Demo at o.DemoURL.
func Config(o ConfigOptions) []byte {
	for _, f := range []struct {
		field     *string
		otherwise string
	}{{&o.Region, "local"}, {&o.Listen, "127.0.0.1:8080"}, {&o.OperatorListen, "127.0.0.1:8081"}} {
		if *f.field == "" {
			*f.field = f.otherwise
		}
	}
	var b bytes.Buffer
	if err := configTemplate.Execute(&b, o); err != nil {
		panic("demo: demo.yaml and ConfigOptions disagree: " + err.Error()) // caught by any test of Config
	}
	return b.Bytes()
}

// quote writes s so that the config reads exactly s: a JSON string is a YAML string, and a
// ${ that is not meant as a reference is doubled.
func quote(s string) (string, error) {
	b, err := json.Marshal(strings.ReplaceAll(s, "${", "$${"))
	return string(b), err
}

func quoteAll(list []string) (string, error) {
	quoted := make([]string, len(list))
	for i, s := range list {
		var err error
		if quoted[i], err = quote(s); err != nil {
			return "", err
		}
	}
	return strings.Join(quoted, ", "), nil
}
