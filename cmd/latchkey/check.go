package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/gateway/config"
)

// report is what check --json prints.
type report struct {
	OK       bool                  `json:"ok"`
	Tools    []downstream.AuditRow `json:"tools"`
	Findings []finding             `json:"findings"`
	Problems config.Problems       `json:"problems"`
}

// finding is something that the audit, or the config's own check, has to say.
type finding struct {
	File     string              `json:"file"`
	Line     int                 `json:"line"`
	Severity downstream.Severity `json:"severity"`
	Tool     string              `json:"tool,omitempty"`
	Field    string              `json:"field"`
	Message  string              `json:"message"`
}

func (f finding) String() string {
	return string(f.Severity) + ": " + config.Problem{File: f.File, Line: f.Line, Field: f.Field, Message: f.Message}.Error()
}

// unsafeError makes check exit with 1.
type unsafeError struct{ count int }

func (e unsafeError) Error() string {
	if e.count == 1 {
		return "1 tool setting is unsafe"
	}
	return fmt.Sprintf("%d tool settings are unsafe", e.count)
}

func newCheckCmd() *cobra.Command {
	var asJSON bool
	var opts config.Options
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Check a config and audit its tools",
		Long: "Check reads a config strictly and shows, for every tool, what makes up its identity, whether its\n" +
			"key is forwarded, what resolves an unknown outcome and what a second call would do. Errors are\n" +
			"settings that cannot keep the promise, warnings such that keep it on a condition; notes say in\n" +
			"plain words what risk remains, and on whose word the safety rests.\n" +
			"It exits with 1 if a tool is unsafe and with 2 if the config is wrong. It connects to nothing.",
		Args: cobra.NoArgs,
	}
	path := configFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&opts.AllowFaults, "allow-faults", false, "accept a faults section, as serve does with the same flag")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := check(*path, opts)
		if err != nil && !asJSON {
			return err
		}
		if asJSON {
			enc := json.NewEncoder(cmd.OutOrStdout())
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			if err := enc.Encode(r); err != nil {
				return err
			}
		} else if err := r.print(cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		if n := r.unsafe(); n > 0 {
			return unsafeError{n}
		}
		return nil
	}
	return cmd
}

// check loads and audits. With an error the report holds the problems.
func check(path string, opts config.Options) (report, error) {
	r := report{Tools: []downstream.AuditRow{}, Findings: []finding{}, Problems: config.Problems{}}
	cfg, warnings, err := config.Load(path, opts)
	var catalogue *downstream.Catalogue
	if err == nil {
		catalogue, err = cfg.Catalogue()
	}
	if err != nil {
		r.Problems, _ = errors.AsType[config.Problems](err)
		return r, err
	}
	for _, w := range warnings {
		r.Findings = append(r.Findings, finding{File: w.File, Line: w.Line, Severity: downstream.Warning, Field: w.Field, Message: w.Message})
	}
	rows, remarks := catalogue.Audit()
	r.Tools = append(r.Tools, rows...)
	for _, f := range slices.Concat(remarks, catalogue.Risks()) {
		field := "tools." + f.Tool + "." + f.Field
		r.Findings = append(r.Findings, finding{File: cfg.File(), Line: cfg.Line(field), Severity: f.Severity, Tool: f.Tool, Field: field, Message: f.Msg})
	}
	r.OK = r.unsafe() == 0
	return r, nil
}

func (r report) unsafe() int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == downstream.Unsafe {
			n++
		}
	}
	return n
}

// print writes the table to stdout and the findings to stderr.
func (r report) print(stdout, stderr io.Writer) error {
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	line := func(cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")) }
	line("TOOL", "CLASS", "IDENTITY", "FORWARDS KEY", "UNKNOWN", "A SECOND CALL")
	for _, row := range r.Tools {
		line(row.Tool, row.Class, row.Identity, row.Forwarding, row.Unknown, row.Retry)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, f := range r.Findings {
		fmt.Fprintln(stderr, "latchkey: "+f.String())
	}
	return nil
}
