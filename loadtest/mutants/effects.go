package mutants

// requests breaks how one attempt at an effect is sent and understood (DESIGN §5).
func requests() []Mutant {
	mutant := func(name, guard, file, old, broken, run string) Mutant {
		return Mutant{Name: name, Guard: guard, File: "downstream/" + file, Old: old, New: broken, Kills: Suite{"./downstream", run}}
	}
	return []Mutant{
		mutant("request-resent", "a request of which bytes were written is not sent again", "client.go",
			"if o.Sent || !reused {", "if o.Err == nil || !reused {", "TestAnEffectIsSentOnceOverABrokenConnection"),
		mutant("effect-retried-as-read", "what acts is not repeated like what only asks", "client.go",
			"if call.Tool.Class != intent.ReadOnly {", "if call.Tool.Class == intent.Irreversible {", "TestForwardRetriesReadsOnly"),
		mutant("lease-not-asked", "a process that slept past its lease writes nothing", "client.go",
			"if call.MayBegin != nil && !call.MayBegin() {", "if call.MayBegin != nil && !call.MayBegin() && false {", "TestTheLeaseIsAskedRightBeforeEachWrite"),
		mutant("http2-spoken", "a connection carries one request at a time, which nothing resends", "client.go",
			`secure.NextProtos = []string{"http/1.1"}`, `secure.NextProtos = []string{"h2", "http/1.1"}`, "TestHTTP2IsNeverSpoken"),
		mutant("sent-without-answer-is-unsent", "bytes that were written count, whatever came back", "conn.go",
			"o.Sent = c.wire.written.Load() > before", "o.Sent = c.wire.written.Load() > before && o.HTTPStatus != 0", "TestSentAndNotAnsweredIsUnknown"),
		mutant("5xx-is-rejected", "a 500 does not say that nothing happened", "classify.go",
			"case status >= 400 && status < 500 && ofTheMoment(status):", "case status >= 400 && ofTheMoment(status):", "TestEveryStatusHasItsMeaning"),
		mutant("408-is-rejected", "a 408 does not say that nothing happened", "classify.go",
			"case status == http.StatusRequestTimeout || status == http.StatusTooEarly:", "case status == http.StatusTooEarly:", "TestEveryStatusHasItsMeaning"),
		mutant("cut-answer-is-completed", "an answer that did not come whole proves nothing", "classify.go",
			"case o.Err != nil || o.HTTPStatus == 0:", "case o.HTTPStatus == 0:", "TestEveryFailureShape"),
		mutant("lost-answer-is-rejected", "a timeout is unknown, not free to be tried again", "classify.go",
			"return Verdict{Status: intent.Unknown, Retry: intent.RetryNever, Reason: whyUnknown(o)}",
			"return Verdict{Status: intent.Rejected, Retry: intent.RetrySameKey, Reason: whyUnknown(o)}", "TestEveryFailureShape"),
		mutant("breaker-admits-while-open", "an open breaker lets no fresh call through", "gate.go",
			"report, err := g.breaker.Allow()\n", "report, err := g.breaker.Allow()\n\tif err != nil {\n\t\treport, err = func(error) {}, nil\n\t}\n", "TestTheBreakerOpensOnFailuresAndProbes"),
		mutant("permits-not-counted", "a downstream gets no more calls at once than it may", "gate.go",
			"if g.inFlight.Add(1) > g.permits {", "if g.inFlight.Add(1) > g.permits+1000 {", "TestPermits"),
		mutant("evidence-in-clear", "what a lookup answers is not kept where it repeats a redacted argument", "evidence.go",
			"hide, sure := t.masker(w.call.Args)", "hide, sure := masker{}, true", "TestEvidenceHidesWhatIsRedacted"),
		mutant("key-not-forwarded", "the downstream gets the key that it dedupes on", "wire.go",
			`if keyHeader != "" && f.key != "" {`, `if keyHeader != "" && f.key == "" {`, "TestExecuteSendsWhatTheToolSays"),
		mutant("template-blind", "a request that was configured anew counts as another request", "again.go",
			`string(body), contentType, t.ForwardHeader}`, `contentType, t.ForwardHeader}`, "TestTemplateChangesWithTheRequest"),
	}
}
