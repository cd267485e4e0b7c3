package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// aDecision is a command that decides about one receipt.
type aDecision struct {
	verb, short, long string
	match             bool // the version that was read is sent along even if none was named
	brief             bool // no reason is needed
	executes          bool // it may take as long as the tool does
	flags             func(cmd *cobra.Command) (body func() (map[string]any, error))
	will              func(r *receiptView, body map[string]any) string
}

var decisions = []aDecision{
	{verb: "resolve", match: true, short: "Settle an unknown: it happened, or it did not",
		long: "Settle an unknown with what you found out at the downstream. It cannot be taken back.", flags: resolveFlags, will: willResolve},
	{verb: "approve", match: true, executes: true, short: "Approve these arguments, and execute them",
		long: "Approve the arguments as they are now, and execute them. show prints them.", flags: nil,
		will: func(r *receiptView, body map[string]any) string {
			return "approve and execute " + r.Tool + " with " + printable(string(r.Intent.Args))
		}},
	{verb: "decline", match: true, short: "Decline what awaits approval; nothing is sent",
		will: func(r *receiptView, _ map[string]any) string { return "decline " + r.Tool + "; nothing is sent" }},
	{verb: "reconcile", brief: true, short: "Ask the downstream now whether it happened",
		will: func(r *receiptView, _ map[string]any) string { return "look up " + r.Tool }},
	{verb: "wait", short: "Leave an unknown unknown, and check again later", flags: waitFlags,
		will: func(r *receiptView, body map[string]any) string {
			return fmt.Sprintf("leave %s unknown and check again in %v", r.Tool, body["for"])
		}},
	{verb: "reexecute", match: true, executes: true, short: "Act again on an unknown, because you know that it is safe",
		long: "Act again on an unknown. If the first request did happen, this is a second effect.",
		will: func(r *receiptView, _ map[string]any) string {
			return fmt.Sprintf("execute %s again, as execution %d", r.Tool, r.Fence+1)
		}},
	{verb: "acknowledge", short: "Say that you have seen to a possible double",
		will: func(r *receiptView, _ map[string]any) string { return "take the doubt off " + r.Tool }},
}

func newDecisionCmd(a *api, d aDecision) *cobra.Command {
	cmd := &cobra.Command{Use: d.verb + " KEY", Short: d.short, Long: d.long, Args: cobra.ExactArgs(1)}
	noFiles(cmd)
	flags := cmd.Flags()
	reason := flags.StringP("reason", "r", "", "why, in a `sentence`; it is kept in the audit")
	if !d.brief {
		_ = cmd.MarkFlagRequired("reason")
	}
	match := flags.String("if-match", "", "refuse unless the receipt is still at this `version`, such as 1.2 (else the one that is read now)")
	dry := flags.Bool("dry-run", false, "show what would be done, and stop")
	var wait *time.Duration
	if d.executes {
		wait = flags.Duration("wait", 0, "how long to wait for the result (else the tool's time-out)")
	}
	body := func() (map[string]any, error) { return map[string]any{}, nil }
	if d.flags != nil {
		body = d.flags(cmd)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		order, err := body()
		if err != nil {
			return err
		}
		if strings.TrimSpace(*reason) == "" && !d.brief {
			return usagef("--reason must say why")
		}
		if *reason != "" {
			order["reason"] = *reason
		}
		before, err := a.receipt(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if d.verb == "approve" { // exactly what is shown, even if it moves meanwhile
			var shown struct{ Intent struct{ Fingerprint string } }
			if err := json.Unmarshal(before.raw, &shown); err != nil {
				return err
			}
			order["fingerprint"] = shown.Intent.Fingerprint
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s %s (version %s): %s\n", before.short(), before.Status, strings.Trim(before.etag, `"`), d.will(&before, order))
		if *dry {
			return nil
		}
		headers := map[string]string{}
		if *match != "" {
			headers["If-Match"] = `"` + strings.Trim(*match, `"`) + `"`
		} else if d.match {
			headers["If-Match"] = before.etag
		}
		if wait != nil && *wait > 0 {
			headers["Prefer"] = fmt.Sprintf("wait=%d", int((*wait+time.Second-1)/time.Second))
		}
		sent, err := json.Marshal(order)
		if err != nil {
			return err
		}
		answer, header, err := a.ask(cmd.Context(), http.MethodPost, "/v1/receipts/"+before.Key+"/"+d.verb, sent, headers)
		if err != nil {
			return err
		}
		after, err := a.view(answer, header)
		if err != nil {
			return err
		}
		if a.json {
			return printJSON(cmd.OutOrStdout(), after.raw)
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), after.line(time.Now()))
		return err
	}
	return cmd
}

func resolveFlags(cmd *cobra.Command) func() (map[string]any, error) {
	outcome := cmd.Flags().String("outcome", "", "completed (it happened) or rejected (it did not)")
	retry := cmd.Flags().String("retry", "", "with rejected: same_key (the same call may act again; the default) or corrected")
	result := cmd.Flags().String("result", "", "with completed: the result for callers, as `JSON`, @FILE or @- for stdin")
	_ = cmd.MarkFlagRequired("outcome")
	words(cmd, "outcome", "completed", "rejected")
	words(cmd, "retry", "same_key", "corrected")
	return func() (map[string]any, error) {
		order := map[string]any{"outcome": *outcome}
		if *outcome != "completed" && *outcome != "rejected" {
			return nil, usagef("--outcome is completed or rejected")
		}
		if *retry != "" {
			order["retry"] = *retry
		}
		if *result != "" {
			text, err := read(*result, cmd.InOrStdin())
			if err != nil {
				return nil, err
			}
			if !json.Valid(text) {
				return nil, usagef("--result is not JSON")
			}
			order["result"] = json.RawMessage(text)
		}
		return order, nil
	}
}

// read returns a flag's text, or what the file holds that it names.
func read(s string, stdin io.Reader) ([]byte, error) {
	name, isFile := strings.CutPrefix(s, "@")
	var text []byte
	var err error
	switch {
	case !isFile:
		return []byte(s), nil
	case name == "-":
		text, err = io.ReadAll(stdin)
	default:
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, usagef("--result: %v", err)
	}
	return text, nil
}

func willResolve(r *receiptView, body map[string]any) string {
	switch {
	case body["outcome"] == "completed":
		return "completed: callers of " + r.Tool + " are told that it happened"
	case body["retry"] == "corrected":
		return "rejected: callers of " + r.Tool + " are told that it did not happen; only a corrected call may act"
	}
	return "rejected: callers of " + r.Tool + " are told that it did not happen; the same call may act again"
}

func waitFlags(cmd *cobra.Command) func() (map[string]any, error) {
	pause := cmd.Flags().Duration("for", time.Hour, "how long until the next check")
	return func() (map[string]any, error) {
		if *pause < time.Second {
			return nil, usagef("--for must be 1s or more")
		}
		return map[string]any{"for": pause.String()}, nil
	}
}
