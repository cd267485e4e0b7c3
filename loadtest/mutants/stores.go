package mutants

// rows breaks what every durable store rests on.
func rows() []Mutant {
	return []Mutant{
		{Name: "another-claims-row", Guard: "a row that another claim wrote is not mine", File: "intentstore/repeat.go",
			Old: `return row.Key == asked.Key && row.ClaimID == asked.ClaimID && row.Status == asked.Status`, New: `return row.Key == asked.Key && row.Status == asked.Status`,
			Kills: Suite{"./intentstore/memstore", "TestStore"}},
		{Name: "spent-claim-is-mine", Guard: "a claim does not act a second time once its key is settled", File: "intentstore/repeat.go",
			Old: `row.ClaimID == asked.ClaimID && row.Status == asked.Status`, New: `row.ClaimID == asked.ClaimID`,
			Kills: Suite{"./intentstore/memstore", "TestStore"}},
		{Name: "replace-without-version", Guard: "a decision is refused when the receipt is not the one that was seen", File: "intentstore/repeat.go",
			Old: `row.Fence == was.Fence && row.Version == was.Version && sameRecovery(&row.Recovery, &was.Recovery)`, New: `row.Fence == was.Fence && sameRecovery(&row.Recovery, &was.Recovery)`,
			Kills: Suite{"./intentstore/sqlite", "TestStore"}},
		{Name: "replace-without-next-check", Guard: "of many reconcilers one takes a row", File: "intentstore/repeat.go",
			Old: `return a.NextCheck.Equal(b.NextCheck) && a.NotifyAt.Equal(b.NotifyAt)`, New: `return a.NotifyAt.Equal(b.NotifyAt)`,
			Kills: Suite{"./intentstore/sqlite", "TestStore"}},
		{Name: "replace-with-anything", Guard: "a store refuses a change that is no move", File: "intentstore/check.go",
			Old: "if !intent.MayReplace(", New: "if false && !intent.MayReplace(", Kills: Suite{"./intentstore/sqlite", "TestStore"}},
		{Name: "sqlite-settles-anything", Guard: "SQLite settles only what the move leads from", File: "intentstore/sqlite/write.go",
			Old: "row, result = before.Apply(m)\n", New: "row, result = before.Apply(m)\n\t\tif result != nil {\n\t\t\tforced := before\n\t\t\tforced.Status, forced.Fence = intent.Started, m.Fence\n\t\t\trow, result = forced.Apply(m)\n\t\t}\n",
			Kills: Suite{"./intentstore/sqlite", "TestStore"}},
		{Name: "sqlite-ignores-guard", Guard: "SQLite lets a rejected key act again only while its step is free", File: "intentstore/sqlite/write.go",
			Old: `if err == nil || !errors.Is(err, intent.ErrNone) {`, New: `if err != nil && !errors.Is(err, intent.ErrNone) {`, Kills: Suite{"./intentstore/sqlite", "TestStore"}},
		{Name: "sqlite-unsynced", Guard: "what SQLite acknowledged outlives the process", File: "intentstore/sqlite/write.go",
			Old: "\treturn tx.Commit()\n", New: "\tgo tx.Commit()\n\treturn nil\n", Kills: Suite{"./intentstore/sqlite", "TestKilled"}},
	}
}

// postgresRows breaks the same in SQL, and how commits are made sure of.
func postgresRows() []Mutant {
	store := func(name, guard, file, old, broken, run string) Mutant {
		return Mutant{Name: name, Guard: guard, File: "intentstore/postgres/" + file, Old: old, New: broken,
			Kills: Suite{"./intentstore/postgres", run}, Needs: PostgresServer}
	}
	return []Mutant{
		store("settle-sql-without-fence", "an old execution's settlement does not touch the row", "queries/settle.sql",
			"WHERE i.key = s.key AND i.fence = s.fence AND i.status", "WHERE i.key = s.key AND i.status", "TestStore/shared/an_old_fence|every_move"),
		store("settle-sql-without-status", "a settled row is not settled again", "queries/settle.sql",
			" AND i.status = ANY (string_to_array(s.from_words, ' '))", "", "TestStore/shared/every_move|a_repeat_is_success"),
		store("replace-sql-without-version", "a decision is refused when the row is not the one that was seen", "queries/replace.sql",
			"AND fence = $3 AND version = $4", "AND fence = $3 AND version >= $4 - 99", "TestStore/shared/whoever_does_not_know"),
		store("replace-sql-without-next-check", "of many reconcilers one takes a row", "queries/replace.sql",
			"AND next_check IS NOT DISTINCT FROM $7", "AND ($7::timestamptz IS NULL OR true)", "TestStore/shared/(one_of_many_takes_a_row|whoever_does_not_know)"),
		store("again-sql-without-version", "of many claims of a rejected key one acts again", "queries/again.sql",
			"AND status = 'rejected' AND version = $30 AND (retry", "AND version >= $30 AND (retry", "TestStore/shared/one_of_many_claims_acts_again"),
		store("batch-unsorted", "batches of two replicas never wait for each other in a circle", "write.go",
			"slices.SortStableFunc(ops, order)", "slices.SortStableFunc(ops, func(a, b *op) int { return 0 })", "TestNoDeadlock"),
		store("batch-settles-twice", "one statement settles a key once", "write.go",
			"case o.settle != nil && settled[key]:", "case false:", "TestApart"),
		store("mine-without-barrier", "after an ambiguous commit nothing is sent before a write is acknowledged", "begin.go",
			"f.known, f.doubt, f.err = s.barrier(own)", "f.known = true", "TestAmbiguousCommit"),
		store("ambiguous-taken-as-failed", "a commit whose answer was lost counts as possible", "conn.go",
			"return !pgconn.SafeToRetry(err)", "return false", "TestAmbiguousCommit"),
		store("standby-notice-ignored", "a commit that the standby may not have is not acknowledged", "conn.go",
			"c.OnNotice = onNotice", "c.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) {}", "TestStandbyWaitCancelled"),
		store("statements-cancelled", "no statement is ever cancelled", "conn.go",
			"neverCancel(&c.Config)", "_ = neverCancel", "TestNoCancelRequest"),
		store("decision-on-callers-context", "a person who goes away does not end the statement of a decision", "desk.go",
			"f.doubt, f.err = s.acknowledged(func(ctx context.Context, c *pgxpool.Conn) error {\n\t\t\treturn c.QueryRow(ctx, replaceSQL",
			"f.doubt, f.err = s.acknowledged(func(_ context.Context, c *pgxpool.Conn) error {\n\t\t\treturn c.QueryRow(ctx, replaceSQL", "TestDecisionOfACallerThatLeft"),
	}
}
