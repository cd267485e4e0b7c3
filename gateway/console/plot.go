package console

import (
	"fmt"
	"math"
	"time"

	"github.com/latchkey-gateway/latchkey/intentstore"
)

// Plots are drawn here and not by a charting library: what go-analyze/charts renders carries
// its colours in style attributes, which the Content-Security-Policy forbids, and which no
// stylesheet could turn dark. Bars with classes need less code than working around that.

// plot is a stacked bar chart, laid out in the units of its viewBox, and its numbers.
type plot struct {
	Title, Means string
	Total        int64
	Layers       []layerTotal
	Width        float64
	Height       float64
	Base         float64 // y of zero
	Left, Right  float64
	Bars         []plotBar
	Grid         []gridLine
	Ticks        []tickShape
	Rows         []plotRow // the same as a table: steps in which something happened
	Summary      string
}

type layerTotal struct {
	Name, Class string
	N           int64
}

type plotBar struct {
	X, Y, W, H   float64
	Class, Title string
}

type gridLine struct {
	Y     float64
	Label string
}

type plotRow struct {
	At     string
	Counts []int64
}

const (
	plotWidth, plotHeight = 520.0, 150.0
	plotLeft, plotRight   = 36.0, 512.0
	plotTop, plotBase     = 10.0, 126.0
)

func newPlot(title, means string, layers []layer, counts []intentstore.Count, since time.Time, step time.Duration, steps int) *plot {
	p := &plot{Title: title, Means: means, Width: plotWidth, Height: plotHeight, Base: plotBase, Left: plotLeft, Right: plotRight}
	grid := make([][]int64, steps)
	for i := range grid {
		grid[i] = make([]int64, len(layers))
	}
	for _, n := range counts {
		i := int(n.At.Sub(since) / step)
		if n.At.Before(since) || i >= steps {
			continue
		}
		for j, l := range layers {
			if l.of(n) {
				grid[i][j] += n.N
			}
		}
	}
	var most int64
	p.Layers = make([]layerTotal, len(layers))
	for j, l := range layers {
		p.Layers[j] = layerTotal{Name: l.Name, Class: l.Class}
	}
	for _, row := range grid {
		var sum int64
		for j, n := range row {
			sum += n
			p.Layers[j].N += n
		}
		p.Total += sum
		most = max(most, sum)
	}
	top := niceTop(most)
	scale := (plotBase - plotTop) / float64(top)
	pitch := (plotRight - plotLeft) / float64(steps)
	for i, row := range grid {
		at := since.Add(time.Duration(i) * step).UTC()
		y, some := plotBase, false
		for j, n := range row {
			if n == 0 {
				continue
			}
			some = true
			h := round(float64(n) * scale)
			y -= h
			p.Bars = append(p.Bars, plotBar{X: round(plotLeft + float64(i)*pitch + 0.5), Y: round(y), W: round(max(1, pitch-1)), H: h, Class: layers[j].Class,
				Title: fmt.Sprintf("%s UTC: %d %s", at.Format("Jan 2 15:04"), n, layers[j].Name)})
		}
		if some {
			p.Rows = append(p.Rows, plotRow{at.Format("Jan 2 15:04"), row})
		}
	}
	for _, n := range []int64{top / 2, top} {
		if n > 0 && (n != top/2 || top%2 == 0) {
			p.Grid = append(p.Grid, gridLine{round(plotBase - float64(n)*scale), short(n)})
		}
	}
	layout := "15:04"
	if time.Duration(steps)*step > 48*time.Hour {
		layout = "Jan 2"
	}
	for i := range 5 {
		at := since.Add(time.Duration(i) * time.Duration(steps) * step / 4)
		anchor := [5]string{"start", "middle", "middle", "middle", "end"}[i]
		p.Ticks = append(p.Ticks, tickShape{round(plotLeft + float64(i)*(plotRight-plotLeft)/4), at.UTC().Format(layout), anchor})
	}
	p.Summary = fmt.Sprintf("%s: %d in all", title, p.Total)
	for _, l := range p.Layers {
		p.Summary += fmt.Sprintf(", %d %s", l.N, l.Name)
	}
	return p
}

// niceTop is the next 2, 4, 6 or 10 times a power of ten: an axis whose half is whole.
func niceTop(n int64) int64 {
	for unit := int64(1); ; unit *= 10 {
		for _, m := range []int64{2, 4, 6, 10} {
			if m*unit >= n {
				return m * unit
			}
		}
	}
}

func round(x float64) float64 { return math.Round(x*100) / 100 }

// short writes a number in at most four letters.
func short(n int64) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%.3gM", float64(n)/1e6)
	case n >= 1_000:
		return fmt.Sprintf("%.3gk", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}
