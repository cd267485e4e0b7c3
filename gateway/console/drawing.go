package console

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// drawing is a timeline laid out for a width, in the units of the SVG's viewBox.
type drawing struct {
	Width, Height float64
	Top, Bottom   float64 // of the lanes
	Left, Right   float64
	Lanes         []laneShape
	Bars          []barShape
	Marks         []markShape
	Lines         []lineShape
	Ticks         []tickShape
	Legend        []legend
	Compressed    bool
	From          string // the first moment
	Title         string
}

type laneShape struct {
	Name         string
	Y, Height    float64
	NameX, NameY float64
}

type barShape struct {
	X, Y, W, H  float64
	Kind, Title string
	Open        bool
}

type markShape struct {
	X, Y        float64
	Kind, Title string
	Link, Shape string
	Count       int // of marks that lie on top of each other; 0: one
}

type lineShape struct {
	X, LabelX, LabelY float64
	Kind, Label       string
	Anchor            string
}

type tickShape struct {
	X             float64
	Label, Anchor string
}

type legend struct{ Kind, Shape, Text string }

// shapes are drawn around 0,0 so that no two decisions differ in colour alone.
var shapes = map[string]string{
	"executed":      "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
	"collapsed":     "M0 -6L6 0L0 6L-6 0z",
	"replayed":      "M-5 5L0 -6L5 5z",
	"mismatch":      "M-5 -3L-3 -5L0 -2L3 -5L5 -3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0z",
	"step_conflict": "M-5 -3L-3 -5L0 -2L3 -5L5 -3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0z",
	"refused":       "M-5 -5H5V5H-5z",
	"pending":       "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",

	"lookup-nothing": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
	"lookup-proof":   "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
	"next":           "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
	"":               "M-5 -5H5V5H-5z",
}

var legendWords = map[string]string{"executed": "executed", "collapsed": "joined in flight", "replayed": "replayed", "mismatch": "other arguments, refused",
	"step_conflict": "other action in this step, refused", "refused": "not sent", "pending": "left without result",
	"lookup-nothing": "lookup, proved nothing", "lookup-proof": "lookup, proof", "next": "next check", "park": "left to a person", "retry": "sent again",
	"reexecute": "executed again", "approve": "approved", "decline": "declined", "resolve": "resolved", "wait": "keep waiting", "late_answer": "late answer",
	"expire": "approval ran out", "acknowledge": "doubt seen to"}

func shape(kind string) string {
	if s, ok := shapes[kind]; ok {
		return s
	}
	return shapes[""]
}

const (
	markPitch   = 13.0 // between two marks of a lane that do not touch
	markRows    = 4
	letterWidth = 6.3 // of a label, estimated; labels that might touch go to different rows
	labelRow    = 14.0
	barHeight   = 12.0
)

func (t *timeline) draw(width float64) *drawing {
	times := t.times()
	d := &drawing{Width: width, Left: 96, Right: width - 16}
	narrow := width < 600
	if narrow {
		d.Left, d.Right = 10, width-10
	}
	a := newAxis(times, d.Left, d.Right-d.Left)
	d.Compressed = a.Compressed
	d.labels(t.lines, a)
	y := d.Top
	for lane := range lanes {
		height := d.lane(t, a, lane, y, narrow)
		if height == 0 {
			continue
		}
		s := laneShape{Name: laneNames[lane], Y: y, Height: height, NameX: 0, NameY: y + height/2 + 4}
		if narrow {
			s.NameX, s.NameY = d.Left, y+11
		}
		d.Lanes = append(d.Lanes, s)
		y += height
	}
	d.Bottom = y
	d.Height = y + 22
	d.ticks(times, a)
	d.From = when{times[0], t.now}.Millis()
	d.Title = fmt.Sprintf("Timeline from %s UTC over %s: %s, %s. The tables below tell the same.", d.From, span(times[len(times)-1].Sub(times[0])),
		plural(len(t.bars), "execution"), plural(t.count(laneCalls), "call"))
	return d
}

func (t *timeline) count(lane int) (n int) {
	for _, m := range t.moments {
		if m.Lane == lane {
			n++
		}
	}
	return n
}

// labels writes the names of the lines above the lanes, in as many rows as they need.
func (d *drawing) labels(lines []limit, a *axis) {
	sorted := slices.Clone(lines)
	slices.SortStableFunc(sorted, func(x, y limit) int { return x.At.Compare(y.At) })
	var ends []float64
	for _, l := range sorted {
		s := lineShape{X: a.x(l.At), Kind: l.Kind, Label: l.Label, Anchor: "start"}
		w := float64(len(l.Label)) * letterWidth
		s.LabelX = s.X + 4
		from := s.LabelX
		if s.LabelX+w > d.Width {
			s.Anchor, s.LabelX = "end", s.X-4
			from = s.LabelX - w
		}
		row := slices.IndexFunc(ends, func(end float64) bool { return end+6 <= from })
		if row < 0 {
			row = len(ends)
			ends = append(ends, 0)
		}
		ends[row] = from + w
		s.LabelY = 11 + float64(row)*labelRow
		d.Lines = append(d.Lines, s)
	}
	d.Top = float64(len(ends))*labelRow + 4
}

// lane lays out what is in one lane and returns its height; 0 for an empty one.
func (d *drawing) lane(t *timeline, a *axis, lane int, y float64, narrow bool) float64 {
	top := y + 6
	if narrow {
		top = y + 16 // its name stands above it
	}
	if lane == laneRuns {
		if len(t.bars) == 0 {
			return 0
		}
		for i, b := range t.bars {
			s := barShape{X: a.x(b.From), Y: top + float64(i)*(barHeight+4), H: barHeight, Kind: b.Kind, Title: b.Title, Open: b.To.IsZero()}
			end := d.Right
			if !s.Open {
				end = a.x(b.To)
			}
			s.W = max(3, math.Round((end-s.X)*10)/10)
			d.Bars = append(d.Bars, s)
		}
		return top - y + float64(len(t.bars))*(barHeight+4) + 4
	}
	var in []moment
	for _, m := range t.moments {
		if m.Lane == lane {
			in = append(in, m)
		}
	}
	if len(in) == 0 {
		return 0
	}
	slices.SortStableFunc(in, func(x, y moment) int { return x.At.Compare(y.At) })
	var last [markRows]int // index into d.Marks of the row's last mark, plus one
	rows := 0
	for _, m := range in {
		x := a.x(m.At)
		row := slices.IndexFunc(last[:], func(i int) bool { return i == 0 || x-d.Marks[i-1].X >= markPitch })
		if row < 0 { // no room: it counts on the last one
			under := &d.Marks[last[markRows-1]-1]
			under.Count = max(1, under.Count) + 1
			under.Title += "\n" + m.Title
			continue
		}
		rows = max(rows, row+1)
		d.Marks = append(d.Marks, markShape{X: x, Y: top + 6 + float64(row)*markPitch, Kind: m.Kind, Title: m.Title, Link: m.Link, Shape: shape(m.Kind)})
		last[row] = len(d.Marks)
		if !slices.ContainsFunc(d.Legend, func(l legend) bool { return l.Kind == m.Kind }) {
			d.Legend = append(d.Legend, legend{m.Kind, shape(m.Kind), legendWords[m.Kind]})
		}
	}
	return top - y + float64(rows)*markPitch + 6
}

// ticks tells how long after the first moment things happened, where there is room.
func (d *drawing) ticks(times []time.Time, a *axis) {
	end := math.Inf(-1)
	last := times[len(times)-1]
	total := "+" + span(last.Sub(times[0]))
	room := d.Right - float64(len(total))*letterWidth - 10
	for i, at := range times {
		s := tickShape{X: a.x(at), Label: "+" + span(at.Sub(times[0])), Anchor: "middle"}
		w := float64(len(s.Label)) * letterWidth
		from := s.X - w/2
		switch {
		case i == 0:
			s.Label, s.Anchor, from = "0", "start", s.X
			w = letterWidth
		case i == len(times)-1:
			s.Anchor, from = "end", s.X-w
		case s.X+w/2 > room:
			continue
		}
		if from < end+10 {
			continue
		}
		end = from + w
		d.Ticks = append(d.Ticks, s)
	}
}
