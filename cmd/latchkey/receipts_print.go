package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// columns is how wide the output may be: a terminal that nobody has made larger.
const columns = 80

// printJSON prints the API's JSON, indented; numbers stay as they were written.
func printJSON(w io.Writer, v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(text.Bytes())
	return err
}

// printable writes what a terminal would act on, or hide, as an escape.
func printable(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// cut shortens a text to n characters.
func cut(s string, n int) string {
	s = printable(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

func printList(w io.Writer, page listing, now time.Time) error {
	if len(page.Receipts) == 0 {
		_, err := fmt.Fprintln(w, "There are none.")
		return err
	}
	row := func(cells ...string) string {
		return strings.TrimRight(fmt.Sprintf("%-12s  %4s  %-17s  %-16s  %s", cells[0], cells[1], cells[2], cut(cells[3], 16), cut(cells[4], columns-57)), " ")
	}
	var b strings.Builder
	fmt.Fprintln(&b, row("KEY", "AGE", "STATUS", "TOOL", "NEXT"))
	for _, raw := range page.Receipts {
		var r receiptView
		if err := json.Unmarshal(raw, &r); err != nil {
			return err
		}
		fmt.Fprintln(&b, row(r.short(), age(now.Sub(r.since())), r.Status, r.Tool, r.next(now)))
	}
	if page.Next != "" {
		fmt.Fprintln(&b, "There are more: raise --limit, or narrow the list.")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// next says in a few words what happens next.
func (r *receiptView) next(now time.Time) string {
	in := func() string {
		if r.Recovery.NextCheck == nil {
			return "?"
		}
		if d := r.Recovery.NextCheck.Sub(now); d > 0 {
			return "in " + age(d)
		}
		return "now"
	}
	switch {
	case r.Recovery.Doubt != "":
		return r.Recovery.Doubt
	case r.Recovery.Parked != "":
		return "parked: " + r.Recovery.Parked
	case r.Status == "awaiting_approval" && r.Recovery.NextCheck != nil:
		return "expires " + in()
	case r.Status == "awaiting_approval":
		return "approve or decline"
	case r.Status == "unknown" && r.Recovery.NextCheck != nil:
		return "check " + in()
	case r.Status == "unknown":
		return "resolve it"
	case r.Status == "rejected" && r.Retry == "same_key":
		return "same call may act"
	}
	return ""
}

// line tells of a receipt in one line.
func (r *receiptView) line(now time.Time) string {
	s := fmt.Sprintf("%s %s (version %s): %s", r.short(), r.Status, strings.Trim(r.etag, `"`), printable(r.Tool))
	if r.SettledBy != "" {
		s += ", settled by " + r.SettledBy
	}
	if next := r.next(now); next != "" {
		s += ", " + next
	}
	return s
}

// printReceipt shows what a person needs who must decide.
func printReceipt(w io.Writer, r receiptView, entries []entryView, now time.Time) error {
	var b strings.Builder
	line := func(label, text string) {
		for i, part := range wrap(text, columns-13) {
			if i > 0 {
				label = ""
			}
			fmt.Fprintf(&b, "%-12s %s\n", label, part)
		}
	}
	line(strings.ToUpper(r.Status), fmt.Sprintf("%s (%s), for %s", printable(r.Tool), r.Class, age(now.Sub(r.since()))))
	line("key", r.Key)
	line("version", strings.Trim(r.etag, `"`))
	line("run, step", printable(r.RunID)+", "+printable(r.StepID))
	line("arguments", compact(r.Intent.Args))
	line("asked for", fmt.Sprintf("%s ago, %s, %s", age(now.Sub(r.CreatedAt)), plural(r.Attempts, "time"), plural(r.Executions, "execution")))
	if r.SettledBy != "" {
		line("settled by", r.SettledBy)
	}
	if r.Reason != "" {
		line("reason", printable(r.Reason))
	}
	if result := compact(r.Outcome); result != "null" && r.Status == "completed" {
		line("result", result)
	} else if result != "null" {
		line("answered", result)
	}
	if len(r.Recovery.ApprovedBy) > 0 {
		line("approved by", printable(strings.Join(r.Recovery.ApprovedBy, ", ")))
	}
	if r.Status == "unknown" || r.Recovery.Checks > 0 {
		line("checked", plural(r.Recovery.Checks, "time"))
	}
	if evidence := compact(r.Evidence); evidence != "null" {
		line("evidence", evidence)
	}
	if next := r.next(now); next != "" {
		line("next", next)
	}
	for i, e := range entries[max(0, len(entries)-5):] {
		label := ""
		if i == 0 {
			label = "audit"
		}
		line(label, e.text(now))
	}
	if r.Advice != "" {
		line("agents hear", printable(r.Advice))
	}
	for i, do := range r.todo() {
		switch {
		case strings.HasPrefix(do, "latchkey "): // to be copied whole
			fmt.Fprintln(&b, "  "+do)
		case i == 0:
			line("what to do", do)
		default:
			line("", do)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// todo are the commands that make sense now.
func (r *receiptView) todo() []string {
	command := func(verb, flags string) string { return "latchkey receipts " + verb + " " + r.short() + flags }
	var do []string
	switch r.Status {
	case "awaiting_approval":
		do = append(do, "Read the arguments, then one of:", command("approve", " --reason ..."), command("decline", " --reason ..."))
	case "unknown":
		do = append(do, "Find out at the downstream whether it happened, then:", command("resolve", " --outcome completed --reason ..."), command("resolve", " --outcome rejected --reason ..."))
		if r.Recovery.NextCheck != nil || r.Recovery.Checks > 0 {
			do = append(do, "or ask it now:", command("reconcile", ""))
		}
	}
	if r.Recovery.Doubt != "" {
		do = append(do, "Find out whether it happened twice, put that right, then:", command("acknowledge", " --reason ..."))
	}
	return do
}

func (e entryView) text(now time.Time) string {
	return fmt.Sprintf("%s ago, %s by %s: %s", age(now.Sub(e.Time)), e.Action, printable(e.Actor), printable(e.Reason))
}

func printAudit(w io.Writer, entries []entryView, now time.Time) error {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%s  %s by %s\n", e.Time.UTC().Format("2006-01-02 15:04:05Z"), e.Action, printable(e.Actor))
		for _, part := range wrap(printable(e.Reason), columns-4) {
			fmt.Fprintln(&b, "    "+part)
		}
		if e.Before != e.After {
			fmt.Fprintf(&b, "    %s -> %s\n", e.Before, e.After)
		}
		if evidence := compact(e.Evidence); evidence != "null" {
			for _, part := range wrap(evidence, columns-4) {
				fmt.Fprintln(&b, "    "+part)
			}
		}
	}
	if len(entries) == 0 {
		fmt.Fprintln(&b, "There are no entries.")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shownMost is how much of one value is shown; --json shows all of it.
const shownMost = 2000

func compact(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "null"
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return "null"
	}
	return cut(b.String(), shownMost)
}

// wrap breaks a text into lines of at most n characters, between words where it can.
func wrap(s string, n int) []string {
	runes := []rune(s)
	var lines []string
	for len(runes) > n {
		at := n
		for i := n; i > n/2; i-- {
			if runes[i] == ' ' {
				at = i
				break
			}
		}
		lines = append(lines, string(runes[:at]))
		runes = runes[at:]
		if runes[0] == ' ' {
			runes = runes[1:]
		}
	}
	return slices.Concat(lines, []string{string(runes)})
}
