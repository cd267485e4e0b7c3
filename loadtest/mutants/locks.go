package mutants

// claims breaks who may act now, as Go says it.
func claims() []Mutant {
	test := func(run string) Suite { return Suite{"./lock", run} }
	const file = "lock/decide.go"
	return []Mutant{
		{Name: "lease-frees-key", Guard: "a lease that ran out gives the key to nobody", File: file,
			Old:   "\tcase r.Status == intent.Started:\n\t\treturn Held, 0, false",
			New:   "\tcase r.Status == intent.Started && r.Lease <= 0:\n\t\treturn Claimed, r.Fence + 1, true\n\tcase r.Status == intent.Started:\n\t\treturn Held, 0, false",
			Kills: Suite{"./lock/memlock", "TestExercise"}},
		{Name: "fingerprint-not-compared", Guard: "the same key with other arguments is a mismatch", File: file,
			Old: `same := r.Key == ask.Key && r.Fingerprint == ask.Fingerprint`, New: `same := r.Key == ask.Key`, Kills: test("TestJudge")},
		{Name: "step-not-guarded", Guard: "a reworded retry of a step meets the step's first key", File: file,
			Old: "\tcase r.Key != ask.Key:\n\t\treturn StepConflict, 0, false", New: "\tcase r.Key != ask.Key:\n\t\treturn Claimed, 1, true", Kills: test("TestJudge")},
		{Name: "record-from-old-fence", Guard: "an old execution's state does not replace a newer one's in Redis", File: file,
			Old: `return standing.Fence < next.Fence`, New: `return true`, Kills: Suite{"./lock/memlock", "TestExercise"}},
	}
}

// scripts breaks the same in Redis, and what else the promise asks of Redis.
func scripts() []Mutant {
	test := func(run string) Suite { return Suite{"./lock/redislock", run} }
	return []Mutant{
		{Name: "script-lease-frees-key", Guard: "a lease that ran out in Redis gives the key to nobody", File: "lock/redislock/claim.lua",
			Old:   "elseif status == STARTED then\n  return answer(HELD)",
			New:   "elseif status == STARTED and tonumber(string.sub(cur, 100, 112)) <= clock() then\n  return take(tonumber(string.sub(cur, 5, 19)) + 1)\nelseif status == STARTED then\n  return answer(HELD)",
			Kills: test("TestExerciseMiniredis")},
		{Name: "script-fingerprint-not-compared", Guard: "the same key with other arguments is a mismatch in Redis", File: "lock/redislock/claim.lua",
			Old: `local same_call = same_key and string.sub(cur, 52, 83) == ARGV[2]`, New: `local same_call = same_key`, Kills: test("TestExerciseMiniredis")},
		{Name: "script-unknown-freed", Guard: "Redis gives nobody a key whose outcome is unknown", File: "lock/redislock/claim.lua",
			Old: `if status == REJECTED then`, New: `if status == REJECTED or status == LOST then`, Kills: test("TestExerciseMiniredis")},
		{Name: "script-old-fence", Guard: "an old execution's state does not replace a newer one's in Redis", File: "lock/redislock/settle.lua",
			Old: `return old < new`, New: `return true`, Kills: test("TestExerciseMiniredis")},
		{Name: "script-settled-goes-back", Guard: "a record that is settled does not become started again", File: "lock/redislock/settle.lua",
			Old: `return rank(cur) < rank(rec)`, New: `return true`, Kills: test("TestExerciseMiniredis")},
		{Name: "script-releases-others", Guard: "nobody gives back a claim that is another's", File: "lock/redislock/release.lua",
			Old: `if status == STARTED and string.sub(cur, 84, 99) == ARGV[1] then`, New: `if status == STARTED then`, Kills: test("TestExerciseMiniredis")},
		{Name: "script-renews-others", Guard: "who lost its claim is told so and stops", File: "lock/redislock/renew.lua",
			Old: `if string.sub(cur, 2, 2) == STARTED and string.sub(cur, 84, 99) == string.sub(ARGV[1], 84, 99) then`, New: `if string.sub(cur, 2, 2) == STARTED then`,
			Kills: test("TestExerciseMiniredis")},
		{Name: "redis-client-sends-again", Guard: "a script whose reply was lost is not sent again behind our back", File: "lock/redislock/scripts.go",
			Old: `func (once) NoRetry() bool { return true }`, New: `func (once) NoRetry() bool { return false }`, Kills: test("TestLostReplyIsNotSentAgain"), Needs: RedisServer},
		{Name: "evicting-redis-accepted", Guard: "a Redis that may drop claims by itself is warned of", File: "lock/redislock/ready.go",
			Old: `case policy != "noeviction":`, New: `case policy == "":`, Kills: test("TestCheck"), Needs: RedisServer},
	}
}
