package mutants

func inOnce(name, guard, file, old, broken, run string) Mutant {
	return Mutant{Name: name, Guard: guard, File: "gateway/once/" + file, Old: old, New: broken, Kills: Suite{"./gateway/once", run}}
}

// calls breaks the order of things (DESIGN §4).
func calls() []Mutant {
	return []Mutant{
		inOnce("cache-hit-without-fingerprint", "a replay from memory is for the same arguments", "near.go",
			"if !ok || c.receipt.Fingerprint != id.Fingerprint {", "if !ok {", "TestChangedMinds"),
		inOnce("near-cache-before-settle", "memory holds only what the store has acknowledged", "settle.go",
			"\tafter, err := e.settleRow(ctx, row, s)\n\tif err != nil {",
			"\tif early, err := row.Apply(s); err == nil && early.Status == intent.Completed {\n\t\te.near.add(early)\n\t}\n\tafter, err := e.settleRow(ctx, row, s)\n\tif err != nil {",
			"TestNearCacheHoldsWhatIsStored"),
		inOnce("near-cache-of-unstored", "a result that the store has not got is not final", "settle.go",
			"if row.Status == intent.Completed && row.Durable {", "if row.Status == intent.Completed {", "TestNearCacheHoldsWhatIsStored"),
		inOnce("row-is-no-arbiter", "a call that finds a row does not act, whatever Redis said", "once.go",
			"if !begun.Mine {", "if !begun.Mine && begun.Row.Status != intent.Started {", "TestCrashMatrix"),
		inOnce("sent-before-written-ahead", "nothing is sent when the write-ahead failed", "once.go",
			"if err != nil {\n\t\t\tunsent(\"store\")", "if err != nil && !errors.Is(err, intentstore.ErrAmbiguous) {\n\t\t\tunsent(\"store\")", "TestCrashMatrix"),
		inOnce("ambiguous-begin-left-started", "a row of a call that was told not sent says so", "once.go",
			"\t\t\t\te.abandon(row)\n", "", "TestAmbiguousBeginIsTakenBack"),
		inOnce("abandons-anybodys-row", "only one's own write-ahead is taken back", "settle.go",
			"case found.ClaimID == row.ClaimID && found.Status == intent.Started:", "case found.Status == intent.Started:", "TestAmbiguousBeginIsTakenBack"),
		inOnce("released-on-error", "a lost answer gives nobody the key", "once.go",
			"return r.LoseMove(v.Reason, v.Outcome, e.plan(t, r, at), at)\n}\n\n// claim",
			"return r.RejectMove(\"gateway\", intent.RetrySameKey, 0, v.Reason, nil, false, at)\n}\n\n// claim", "TestUnknownStaysUnknown"),
		inOnce("leader-vanishes-waiter-acts", "who waited for a dead process' call does not make it", "repair.go",
			"after, err := e.settleRow(ctx, row, e.lose(&row, time.Now()))",
			"after, err := e.settleRow(ctx, row, row.RejectMove(\"gateway\", intent.RetrySameKey, 0, \"lease_expired\", nil, false, time.Now()))", "TestCrashMatrix"),
		inOnce("hot-leader-vanishes-waiter-acts", "the same where Redis alone knows of the call", "await.go",
			"if err == nil && rec.Status == intent.Started && rec.Lease <= 0 {\n",
			"if err == nil && rec.Status == intent.Started && rec.Lease <= 0 {\n\t\t\t\te.Lock.Release(ctx, rec.Guard, rec.ClaimID)\n\t\t\t\treturn standing{code: free}\n", "TestCrashMatrix/completed_hot"),
		inOnce("caller-cancels-execution", "a caller that goes away stops the waiting, not the work", "once.go",
			"tracing.With(context.WithoutCancel(ctx), r.Span)", "tracing.With(ctx, r.Span)", "TestCallerThatLeavesStopsNothing"),
		inOnce("own-lease-not-looked-at", "a process that slept past its lease sends nothing", "holder.go",
			"return !h.gone.Load() && h.monotonic() < h.deadline.Load() }", "return true }", "TestSleptPastItsLease"),
		inOnce("lost-claim-goes-on", "a process that was told that its claim is gone sends nothing", "holder.go",
			"return !h.gone.Load() && h.monotonic() < h.deadline.Load() }", "return h.monotonic() < h.deadline.Load() }", "TestSleptPastItsLease"),
		inOnce("result-not-kept", "a result that could not be stored is not lost", "settle.go",
			"after.Durable = false\n\t\te.unstored.add(after)\n\t}\n\t// Dies", "after.Durable = false\n\t}\n\t// Dies", "TestCrashMatrix"),
		inOnce("unstored-shown-as-durable", "a result that is not stored yet says so", "settle.go",
			"\t\tafter.Durable = false\n\t\te.unstored.add(after)\n\t}\n\t// Dies", "\t\te.unstored.add(after)\n\t}\n\t// Dies", "TestNearCacheHoldsWhatIsStored"),
		inOnce("another-tenants-receipt", "nobody reads another tenant's receipt", "receipts.go",
			"if r.Tenant != tenant {", `if r.Tenant == "" {`, "TestOneCallThenReplay"),
		inOnce("redacted-stored-in-clear", "redacted arguments are never stored in clear", "once.go",
			"r.Tool.Rules.Redacted(id.Args).AppendJSON(nil)", "id.Args.AppendJSON(nil)", "TestSealedArgumentsAreSent"),
		{Name: "hot-claim-released", Guard: "a hot call whose process died is unknown: the claim is all there is of it", File: "gateway/once/repair.go",
			Old: "case errors.Is(err, intent.ErrNone) && rec.Hot && rec.Status == intent.Started:", New: "case errors.Is(err, intent.ErrNone) && rec.Hot && false:",
			Kills: Suite{"./gateway/sweep", "TestHotClaimOfTheDeadIsUnknown"}},
		{Name: "living-claim-repaired", Guard: "who still acts is left alone", File: "gateway/once/repair.go",
			Old: "if rec.Status == intent.Started && rec.Lease > 0 {\n\t\treturn nil", New: "if rec.Status == intent.Started && rec.Lease > 0 && false {\n\t\treturn nil",
			Kills: Suite{"./gateway/sweep", "TestExpiredLeaseIsUnknown|TestClaimWithoutRowIsReleased"}},
		{Name: "forgotten-claim-lost-early", Guard: "a row whose claim Redis forgot may still have an owner", File: "gateway/sweep/sweep.go",
			Old: "case now.After(row.SettleBy):", New: "case true:", Kills: Suite{"./gateway/sweep", "TestForgottenClaimIsLostLater"}},
	}
}

// recoveries breaks what may act again without a person (DESIGN §5).
func recoveries() []Mutant {
	return []Mutant{
		inOnce("absence-before-settle-after", "absence proves nothing while the request may be on its way", "recover.go",
			"case found.Proof == downstream.Absent && settled && t.Lookup.AbsenceIsProof:", "case found.Proof == downstream.Absent && (settled || true) && t.Lookup.AbsenceIsProof:",
			"TestLookupsThatProveNothing"),
		inOnce("absence-without-absence-is-proof", "absence proves something only where the tool says so", "recover.go",
			"case found.Proof == downstream.Absent && settled && t.Lookup.AbsenceIsProof:", "case found.Proof == downstream.Absent && settled:",
			"TestAbsenceThatIsNoProof"),
		inOnce("absence-from-after-the-question", "settle_after counts from before the question", "recover.go",
			"settled := !asked.Before(", "settled := !asked.IsZero() && !now.Before(", "TestAbsenceCountsFromBeforeTheQuestion"),
		inOnce("retry-outside-window", "a downstream that may have forgotten the key is not asked again", "plan.go",
			" && at.Add(t.Timeout).Before(r.CreatedAt.Add(t.DedupesFor))", "", "TestRetriesAreBounded"),
		inOnce("retry-without-dedupe", "only what the downstream dedupes is sent again", "plan.go",
			"return t.Dedupes && t.ForwardHeader != \"\" &&", "return", "TestResendNeedsDedupe"),
		inOnce("retry-with-changed-request", "a changed request is not sent under the old key", "recover.go",
			"if row.Template != t.Template() {", "if false {", "TestRetriesAreBounded"),
		inOnce("retry-without-end", "what does not answer is not asked for ever", "plan.go",
			"if r.Checks >= maxTries {", "if r.Checks >= 100*maxTries {", "TestRetriesAreBounded"),
		inOnce("repeated-refusal-settles", "a refusal of the second request says nothing of the first", "recover.go",
			"case v.Status == intent.Completed, refused && t.Dedupes && v.Outcome.HTTPStatus != http.StatusConflict:",
			"case v.Status == intent.Completed, v.Status == intent.Rejected, refused && t.Dedupes && v.Outcome.HTTPStatus != http.StatusConflict:",
			"TestRepeatedRequestProves"),
		inOnce("late-answer-without-doubt", "an answer that shows a double is brought to a person", "recover.go",
			"doubt = intent.DoubtLateAnswer", "doubt = 0", "TestLateAnswerAfterTheNextExecution"),
		inOnce("contradiction-without-doubt", "an answer that contradicts what was settled is brought to a person", "recover.go",
			"doubt = intent.DoubtContradicted", "doubt = 0", "TestAnswerThatContradicts"),
		inOnce("late-answer-changes-the-result", "what was reported stays as it was reported", "recover.go",
			"after, doubt := row, intent.Doubt(0)\n", "after, doubt := row, intent.Doubt(0)\n\t\tafter.Outcome, after.Version = s.Outcome, row.Version\n", "TestLateAnswerAfterTheNextExecution"),
	}
}

// people breaks what a person's decision is bound to.
func people() []Mutant {
	return []Mutant{
		inOnce("approval-of-other-arguments", "an approval is for the arguments that the person saw", "decide.go",
			"case f != intent.Fingerprint{} && f != row.Fingerprint:", "case f != intent.Fingerprint{} && f == intent.Fingerprint{}:", "TestDecisionsAreConditional"),
		inOnce("decision-on-another-version", "a decision is about the receipt as it was shown", "decide.go",
			"if o.If != nil && (o.If.Fence != row.Fence || o.If.Version != row.Version) {", "if o.If != nil && o.If.Fence != row.Fence {", "TestDecisionsAreConditional"),
		inOnce("decision-on-another-tenants-receipt", "nobody decides about another tenant's receipt", "decide.go",
			"if err == nil && row.Tenant != o.Tenant {", `if err == nil && row.Tenant == "" {`, "TestDecisionsAreConditional"),
		inOnce("approved-after-expiry", "an approval comes in time or not at all", "decide.go",
			"case !row.NextCheck.IsZero() && !now.Before(row.NextCheck):", "case !row.NextCheck.IsZero() && now.IsZero():", "TestApprovalExpires"),
		inOnce("approval-used-twice", "each execution of an irreversible tool has an approval of its own", "once.go",
			"if t.Approval != nil {", "if t.Approval != nil && row.Fence == 1 {", "TestApprovalIsUsedOnce"),
		inOnce("approved-without-approval", "an irreversible tool waits for a person", "once.go",
			"if t.Approval != nil {", "if t.Approval != nil && t.Approval.People > 1 {", "TestIrreversibleWaitsForAPerson"),
		inOnce("irreversible-executed-again", "what nobody can undo is not executed again from a button", "decide.go",
			"case t.Class == intent.Irreversible:", "case t.Class == intent.ReadOnly && false:", "TestIrreversibleIsNotExecutedAgain"),
	}
}
