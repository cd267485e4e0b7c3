package dashboards

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"

	"github.com/latchkey-gateway/latchkey/helm/metrics"
)

var update = flag.Bool("update", false, "write the committed dashboards anew")

const committed = "../latchkey/dashboards"

func TestCommitted(t *testing.T) {
	t.Parallel()
	known := cog.NewRuntime()
	known.RegisterPanelcfgVariant(timeseries.VariantConfig())
	known.RegisterPanelcfgVariant(stat.VariantConfig())
	known.RegisterDataqueryVariant(prometheus.VariantConfig())
	names := map[string]bool{}
	for _, v := range Views() {
		made, err := v.JSON()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(committed, v.Name+".json")
		names[file] = true
		if *update {
			if err := os.WriteFile(file, made, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		has, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(made, has) {
			t.Errorf("%s is not what the code makes: go test ./dashboards -run Committed -update", file)
		}
		//lint:ignore SA1019 as in View.JSON
		var read dashboard.Dashboard
		err = read.UnmarshalJSONStrict(has)
		// the SDK answers with a list of no errors where all is well
		if faults, ok := errors.AsType[cog.BuildErrors](err); err != nil && (!ok || len(faults) > 0) {
			t.Errorf("%s: %v", file, err)
		}
	}
	files, err := filepath.Glob(committed + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !names[f] {
			t.Errorf("%s is made by no view", f)
		}
	}
}

// variables are what Grafana puts into a query.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "6h", "$tool", ".*", "$downstream", ".*")

// Every query is about series that exist, and every metric is shown somewhere.
func TestQueries(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	for _, v := range Views() {
		for _, row := range v.Rows {
			var width uint32
			for _, p := range row.Panels {
				if p.Title == "" || p.Unit == "" || len(p.Queries) == 0 {
					t.Errorf("%s, %s: a panel lacks its title, unit or query: %+v", v.Name, row.Title, p)
				}
				if p.Stat {
					width += p.width(4)
				} else {
					width += p.width(8)
				}
				for _, q := range p.Queries {
					used, err := metrics.Check(variables.Replace(q.Expr))
					if err != nil {
						t.Errorf("%s, %s: %s: %v", v.Name, p.Title, q.Expr, err)
					}
					for _, m := range used {
						shown[m] = true
					}
				}
			}
			if width != 24 {
				t.Errorf("%s: the row %q is %d wide, want 24", v.Name, row.Title, width)
			}
		}
	}
	for _, m := range metrics.All {
		if !shown[m.Name] {
			t.Errorf("no dashboard shows %s", m.Name)
		}
	}
}

// Panels do not lie on top of each other, and ids are unique.
func TestLayout(t *testing.T) {
	t.Parallel()
	for _, v := range Views() {
		made, err := v.JSON()
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Panels []struct {
				ID      int
				Title   string
				GridPos struct{ X, Y, W, H int }
			}
		}
		if err := json.Unmarshal(made, &board); err != nil {
			t.Fatal(err)
		}
		taken := map[[2]int]string{}
		for _, p := range board.Panels {
			if p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: %s reaches over the edge", v.Name, p.Title)
			}
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					if other, ok := taken[at]; ok {
						t.Fatalf("%s: %s and %s lie on each other", v.Name, p.Title, other)
					}
					taken[at] = p.Title
				}
			}
		}
	}
}
