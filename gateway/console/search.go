package console

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/latchkey-gateway/latchkey/intent"
	"github.com/latchkey-gateway/latchkey/intentstore"
)

// A search is one line: words, ids and filters such as status:unknown, in any order. The line
// is the address, so it can be handed on.

// parseSearch reads a line. What it does not understand is told, never dropped: a filter
// that was not applied would show more than was asked for.
func parseSearch(line string, now time.Time) (intentstore.Query, []string) {
	var q intentstore.Query
	var words, problems []string
	for _, word := range fields(line) {
		name, value, typed := strings.Cut(word, ":")
		if typed && value == "" {
			problems = append(problems, fmt.Sprintf("%s: has nothing behind it", name))
			continue
		}
		var err error
		switch name {
		case "status":
			q.Status, err = intent.ParseStatus(strings.ToLower(value))
		case "tool":
			q.Tool = value
		case "run":
			q.RunID = value
		case "step":
			q.StepID = value
		case "since":
			q.Since, err = parseMoment(value, now)
		case "until":
			q.Until, err = parseMoment(value, now)
		case "is":
			if value != "attention" {
				err = fmt.Errorf("%q is not attention", value)
			}
			q.Attention = true
		default:
			words = append(words, word)
		}
		if err != nil {
			problems = append(problems, name+": "+err.Error())
		}
	}
	q.Q = strings.Join(words, " ")
	if len(q.Q) > intent.MaxID {
		problems = append(problems, "the words are longer than 255 bytes")
	}
	return q, problems
}

// fields splits at spaces; a value with spaces stands in double quotes: run:"a b".
func fields(line string) []string {
	var list []string
	var b strings.Builder
	quoted, any := false, false
	for _, r := range line {
		switch {
		case r == '"':
			quoted, any = !quoted, true
		case r == ' ' && !quoted || r == '\t' && !quoted:
			if b.Len() > 0 || any {
				list = append(list, b.String())
			}
			b.Reset()
			any = false
		default:
			b.WriteRune(r)
		}
	}
	if b.Len() > 0 {
		list = append(list, b.String())
	}
	return list
}

// parseMoment reads an age such as 90s, 2h or 3d, a date, or a time as in RFC 3339.
func parseMoment(s string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 36500 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is neither an age such as 2h or 3d, nor a date such as 2026-01-31", s)
}

// quoteField writes a value so that fields reads it back as one.
func quoteField(name, value string) string {
	if strings.ContainsAny(value, " \t") {
		return name + `:"` + value + `"`
	}
	return name + ":" + value
}

func (c *Console) search(v *visit) error {
	line := strings.TrimSpace(v.r.FormValue("q"))
	if key, err := intent.ParseKey(strings.ToLower(line)); err == nil {
		if _, err := c.Engine.Receipt(v.ctx(), v.who.Tenant, key); err == nil && v.r.FormValue("cursor") == "" {
			http.Redirect(v.w, v.r, Prefix+"/receipts/"+key.String(), http.StatusSeeOther)
			return nil
		}
	}
	data := struct {
		Line     string
		Problems []string
		Items    []item
		Next     string
		Tools    []string
		Asked    bool
	}{Line: line, Asked: line != ""}
	for _, t := range c.Catalogue.Tools() {
		if t.Class != intent.ReadOnly {
			data.Tools = append(data.Tools, t.Name)
		}
	}
	var q intentstore.Query
	q, data.Problems = parseSearch(line, v.now)
	if len(data.Problems) > 0 {
		return v.show(http.StatusBadRequest, "search", "Search", data)
	}
	q.Tenant, q.Limit, q.Cursor = v.who.Tenant, 50, v.r.FormValue("cursor")
	rows, next, err := c.Engine.List(v.ctx(), q)
	if err != nil {
		return err
	}
	data.Items = v.items(rows)
	if next != "" {
		data.Next = Prefix + "/search?q=" + escapeQuery(line) + "&cursor=" + escapeQuery(next)
	}
	return v.show(http.StatusOK, "search", "Search", data)
}
