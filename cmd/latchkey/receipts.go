package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

const receiptsHelp = `The operator's work from a terminal, through the gateway's API.

The key is taken from LATCHKEY_KEY or --key; only the variable keeps it out of
the list of processes. Reading needs the role viewer or agent, deciding the role
operator. KEY is a receipt's key or its first 8 digits or more.

Exit codes: 0 done; 1 the gateway refused, or there is no such receipt; 2 wrong
usage, a key that may not do it, or a gateway that cannot be reached.`

func newReceiptsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "receipts",
		Short: "Read receipts, and decide about those that wait",
		Long:  receiptsHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(cmd.ErrOrStderr())
			_ = cmd.Help()
			return usagef("a command is needed, such as latchkey receipts list --attention")
		},
	}
	a := &api{}
	flags := cmd.PersistentFlags()
	flags.StringVar(&a.url, "url", "", "the gateway's `address` (else LATCHKEY_URL, else "+defaultURL+")")
	flags.StringVar(&a.key, "key", "", "API `key` (else LATCHKEY_KEY)")
	flags.BoolVar(&a.json, "json", false, "print the API's JSON")
	cmd.AddCommand(newListCmd(a), newShowCmd(a), newAuditCmd(a))
	for _, d := range decisions {
		cmd.AddCommand(newDecisionCmd(a, d))
	}
	return cmd
}

func newListCmd(a *api) *cobra.Command {
	var run, step, tool, status, since, until, query string
	var attention bool
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List receipts, newest first",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.BoolVar(&attention, "attention", false, "only what may wait for a person: unknown, awaiting approval, in doubt")
	flags.StringVar(&run, "run", "", "of this agent `run`")
	flags.StringVar(&step, "step", "", "of this `step`")
	flags.StringVar(&tool, "tool", "", "of this `tool`")
	flags.StringVar(&status, "status", "", "awaiting_approval, started, unknown, completed or rejected")
	flags.StringVar(&since, "since", "", "from this `time` on: 2h (ago) or 2026-01-31T12:00:00Z")
	flags.StringVar(&until, "until", "", "before this `time`")
	flags.StringVarP(&query, "query", "q", "", "`words` of run, step or arguments; a key or its beginning; a trace id")
	flags.IntVar(&limit, "limit", 50, "at most this many")
	words(cmd, "status", "awaiting_approval", "started", "unknown", "completed", "rejected")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limit < 1 {
			return usagef("--limit must be 1 or more")
		}
		values := url.Values{}
		for name, value := range map[string]string{"run_id": run, "step_id": step, "tool": tool, "status": status, "q": query} {
			if value != "" {
				values.Set(name, value)
			}
		}
		if attention {
			values.Set("attention", "true")
		}
		for name, value := range map[string]string{"since": since, "until": until} {
			t, err := moment(value, time.Now())
			if err != nil {
				return usagef("--%s %q is neither a duration nor a time such as 2026-01-31T12:00:00Z", name, value)
			}
			if value != "" {
				values.Set(name, t.UTC().Format(time.RFC3339Nano))
			}
		}
		page, err := a.list(cmd.Context(), values, limit)
		if err != nil {
			return err
		}
		if a.json {
			return printJSON(cmd.OutOrStdout(), page)
		}
		return printList(cmd.OutOrStdout(), page, time.Now())
	}
	return cmd
}

func newShowCmd(a *api) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show KEY",
		Short: "Show a receipt: what is known, what was checked, what to do",
		Args:  cobra.ExactArgs(1),
	}
	noFiles(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := a.receipt(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if a.json {
			return printJSON(cmd.OutOrStdout(), r.raw)
		}
		entries, err := a.audit(cmd.Context(), r.Key)
		if err != nil {
			return err
		}
		return printReceipt(cmd.OutOrStdout(), r, entries, time.Now())
	}
	return cmd
}

func newAuditCmd(a *api) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit KEY",
		Short: "List who did what to a receipt, when and why",
		Args:  cobra.ExactArgs(1),
	}
	noFiles(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key, err := a.whole(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		entries, err := a.audit(cmd.Context(), key)
		if err != nil {
			return err
		}
		if a.json {
			return printJSON(cmd.OutOrStdout(), entries)
		}
		return printAudit(cmd.OutOrStdout(), entries, time.Now())
	}
	return cmd
}

// moment reads a time, or how long ago it was; "" is no time.
func moment(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Parse(time.RFC3339, s)
}

// words offers the values of a flag to the shell.
func words(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func noFiles(cmd *cobra.Command) {
	cmd.ValidArgsFunction = cobra.NoFileCompletions
}

// receiptView is a receipt as far as it is shown here.
type receiptView struct {
	Key          string
	Tool         string
	Class        string
	RunID        string `json:"run_id"`
	StepID       string `json:"step_id"`
	Status       string
	Retry        string
	Advice       string
	Durable      bool
	Outcome      json.RawMessage
	Intent       struct{ Args json.RawMessage }
	Attempts     int
	Executions   int
	Fence        uint64
	CreatedAt    time.Time  `json:"created_at"`
	StartedAt    *time.Time `json:"started_at"`
	SettledAt    *time.Time `json:"settled_at"`
	UnknownSince *time.Time `json:"unknown_since"`
	SettledBy    string     `json:"settled_by"`
	Reason       string
	Evidence     json.RawMessage
	TraceID      string `json:"trace_id"`
	Recovery     struct {
		Checks     int
		NextCheck  *time.Time `json:"next_check_at"`
		Parked     string
		Doubt      string
		ApprovedBy []string `json:"approved_by"`
	}

	raw  json.RawMessage
	etag string
}

func (r *receiptView) short() string { return r.Key[:min(12, len(r.Key))] }

// since is when it came to be as it is.
func (r *receiptView) since() time.Time {
	switch {
	case r.SettledAt != nil:
		return *r.SettledAt
	case r.UnknownSince != nil:
		return *r.UnknownSince
	case r.StartedAt != nil:
		return *r.StartedAt
	}
	return r.CreatedAt
}

type entryView struct {
	ID       int64           `json:"id"`
	Time     time.Time       `json:"time"`
	Actor    string          `json:"actor"`
	Action   string          `json:"action"`
	Reason   string          `json:"reason"`
	Before   string          `json:"before"`
	After    string          `json:"after"`
	Evidence json.RawMessage `json:"evidence"`
	TraceID  string          `json:"trace_id"`
	SpanID   string          `json:"span_id"`
}

// age is a duration as people say it: the largest unit that fits.
func age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}

// plural is "1 time", "2 times".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
