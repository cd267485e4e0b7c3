package mutants

// keys breaks what tells one intention from another (DESIGN §2).
func keys() []Mutant {
	test := func(run string) Suite { return Suite{"./intent", run} }
	const file = "intent/key.go"
	return []Mutant{
		{Name: "slot-without-tenant", Guard: "two tenants' same step is two slots", File: file,
			Old: `digest("latchkey/v1/slot", c.Tenant, c.RunID`, New: `digest("latchkey/v1/slot", c.RunID`, Kills: test("TestFieldBoundaries")},
		{Name: "explicit-key-without-tenant", Guard: "two tenants' same Idempotency-Key is two keys", File: file,
			Old: `digest("latchkey/v1/explicit", c.Tenant, r.Tool`, New: `digest("latchkey/v1/explicit", r.Tool`, Kills: test("TestFieldBoundaries")},
		{Name: "slot-without-occurrence", Guard: "a second action in the same step that is really meant has a key of its own", File: file,
			Old: `c.StepID, strconv.Itoa(c.Occurrence), r.Tool)`, New: `c.StepID, strconv.Itoa(0), r.Tool)`, Kills: test("TestFieldBoundaries")},
		{Name: "fields-joined", Guard: "run a:b step c is not run a step b:c", File: file,
			Old:   `return append(binary.BigEndian.AppendUint64(b, uint64(len(f))), f...)`,
			New:   "_ = binary.BigEndian\n\treturn append(append(b, ':'), f...)",
			Kills: test("TestFieldBoundaries")},
		{Name: "volatile-in-fingerprint", Guard: "a retry with a new timestamp is the same call", File: file,
			Old: `func(Value) Value { return Value{} }`, New: `func(v Value) Value { return v }`, Kills: test("TestSameOrOther")},
		{Name: "numbers-as-floats", Guard: "9007199254740992 and 9007199254740993 are two amounts", File: "intent/value.go",
			Old:   "func appendDecimal(b []byte, token string) []byte {\n",
			New:   "func appendDecimal(b []byte, token string) []byte {\n\tif f, err := strconv.ParseFloat(token, 64); err == nil {\n\t\treturn strconv.AppendFloat(b, f, 'g', -1, 64)\n\t}\n",
			Kills: test("TestCanonicalForm|TestSameOrOther")},
	}
}

// moves breaks the table of states and what may apply it (DESIGN §3).
func moves() []Mutant {
	test := func(run string) Suite { return Suite{"./intent", run} }
	const file = "intent/moves.go"
	return []Mutant{
		{Name: "move-from-old-fence", Guard: "an execution that was superseded settles nothing", File: file,
			Old: `if r.Fence != s.Fence || r.Key != s.Key ||`, New: `if r.Key != s.Key ||`, Kills: test("TestApplyExhaustively")},
		{Name: "move-from-any-status", Guard: "a settled key is not settled again", File: file,
			Old: `|| !slices.Contains(RuleOf(s.Verb).From, r.Status) {`, New: `{`, Kills: test("TestApplyExhaustively")},
		{Name: "completed-not-final", Guard: "what was reported completed is never rejected", File: file,
			Old: `{Verb: Reject, From: []Status{Started, Unknown}`, New: `{Verb: Reject, From: []Status{Started, Unknown, Completed}`, Kills: test("TestMovesAreThePicture")},
		{Name: "rejected-call-runs-again", Guard: "a call that was refused for its arguments is not sent again unchanged", File: file,
			Old: `return status == Rejected && (retry == RetrySameKey || stored != f)`, New: `return status == Rejected`, Kills: test("TestApplyAgainExhaustively")},
		{Name: "unknown-called-again", Guard: "a call never acts on a key whose outcome is unknown", File: file,
			Old: `return status == Rejected && (retry == RetrySameKey || stored != f)`, New: `return status == Unknown || status == Rejected && (retry == RetrySameKey || stored != f)`,
			Kills: test("TestApplyAgainExhaustively")},
		{Name: "approved-in-any-status", Guard: "an approval executes only what awaits one", File: "intent/recovery.go",
			Old:   "func (r Receipt) Approve(by string, o Opening) (Receipt, error) {\n\tif r.Status != AwaitingApproval {",
			New:   "func (r Receipt) Approve(by string, o Opening) (Receipt, error) {\n\tif r.Status == Completed {",
			Kills: test("TestDecisionsExhaustively")},
		{Name: "one-person-approves-twice", Guard: "two approvals are two people's", File: "intent/recovery.go",
			Old: `if r.Status != AwaitingApproval || slices.Contains(r.ApprovedBy, by) {`, New: `if r.Status != AwaitingApproval {`, Kills: test("TestDecisions")},
	}
}
