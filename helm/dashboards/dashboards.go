// Package dashboards makes Grafana's dashboards as code: the agents' view, the SRE's view
// and the downstreams' view. What it makes is committed under latchkey/dashboards, where the
// chart and compose.yaml take it from; a test compares the two. To write it anew:
//
//	go test ./dashboards -run Committed -update
package dashboards

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// View is a dashboard.
type View struct {
	Name   string // of its file, without .json
	Title  string
	About  string
	Filter string // the label whose values can be chosen: tool or downstream
	From   string // the metric that has them
	Rows   []Row
}

// Row is a heading and what is below it.
type Row struct {
	Title  string
	Panels []Panel
}

// Panel is one picture.
type Panel struct {
	Title   string
	About   string // what it means and what to do about it
	Unit    string // Grafana's name of the unit
	Stat    bool   // one number instead of lines
	Stack   bool   // lines on top of each other
	Width   uint32 // of 24
	Queries []Query
	// Warn and Alarm are the values from which a number turns yellow and red; Below turns
	// that around. Without Warn it stays neutral.
	Warn, Alarm float64
	Below       bool
}

// Query is one PromQL expression.
type Query struct{ Expr, Legend string }

// Views are all dashboards.
func Views() []View { return []View{agents(), sre(), downstreams()} }

var source = common.DataSourceRef{Type: new("prometheus"), Uid: new("${datasource}")}

// JSON is the dashboard as Grafana takes it.
func (v View) JSON() ([]byte, error) {
	//lint:ignore SA1019 the form that every Grafana since 9 takes from a file; the newer one needs 12
	b := dashboard.NewDashboardBuilder(v.Title).Uid("latchkey-"+v.Name).Description(v.About).
		Tags([]string{"latchkey"}).Readonly().Refresh("30s").Time("now-6h", "now").Timezone("utc").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("Latchkey").Type(dashboard.DashboardLinkTypeDashboards).
			Tags([]string{"latchkey"}).AsDropdown(true).KeepTime(true).IncludeVars(true)).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(dashboard.NewQueryVariableBuilder(v.Filter).Label(strings.ToUpper(v.Filter[:1]) + v.Filter[1:]).
			Datasource(source).Query(dashboard.StringOrMap{String: new(fmt.Sprintf("label_values(%s, %s)", v.From, v.Filter))}).
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc).
			Multi(true).IncludeAll(true).AllValue(".*"))
	for _, row := range v.Rows {
		b = b.WithRow(dashboard.NewRowBuilder(row.Title))
		for _, p := range row.Panels {
			if p.Stat {
				b = b.WithPanel(p.number())
			} else {
				b = b.WithPanel(p.lines())
			}
		}
	}
	built, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.Name, err)
	}
	out, err := json.MarshalIndent(built, "", "  ")
	return append(out, '\n'), err
}

func (p Panel) lines() *timeseries.PanelBuilder {
	b := timeseries.NewPanelBuilder().Title(p.Title).Description(p.About).Datasource(source).
		Unit(p.Unit).Span(p.width(8)).Height(8).Min(0).LineWidth(1).FillOpacity(10).
		ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeTable).
			Placement(common.LegendPlacementBottom).ShowLegend(true).Calcs([]string{"lastNotNull", "max"})).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if p.Stack {
		b = b.Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal)).FillOpacity(40)
	}
	if p.Warn != 0 {
		b = b.Thresholds(p.thresholds()).ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().
			Mode(common.GraphThresholdsStyleModeDashed))
	}
	for i, q := range p.Queries {
		b = b.WithTarget(q.target(i).Range().Exemplar(true))
	}
	return b
}

func (p Panel) number() *stat.PanelBuilder {
	b := stat.NewPanelBuilder().Title(p.Title).Description(p.About).Datasource(source).
		Unit(p.Unit).Span(p.width(4)).Height(4).NoValue("none").
		ColorMode(common.BigValueColorModeValue).GraphMode(common.BigValueGraphModeArea).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
	if p.Warn != 0 {
		b = b.Thresholds(p.thresholds())
	}
	for i, q := range p.Queries {
		b = b.WithTarget(q.target(i).Range())
	}
	return b
}

func (p Panel) width(otherwise uint32) uint32 {
	if p.Width == 0 {
		return otherwise
	}
	return p.Width
}

func (p Panel) thresholds() *dashboard.ThresholdsConfigBuilder {
	steps := []dashboard.Threshold{{Color: "green"}, {Value: new(p.Warn), Color: "yellow"}, {Value: new(p.Alarm), Color: "red"}}
	if p.Below {
		steps = []dashboard.Threshold{{Color: "red"}, {Value: new(p.Alarm), Color: "yellow"}, {Value: new(p.Warn), Color: "green"}}
	}
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)
}

func (q Query) target(i int) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Datasource(source).Expr(q.Expr).LegendFormat(q.Legend).
		RefId(string(rune('A' + i)))
}
