-- planner: for the whole session. Every statement finds its rows by key or index; a plan
-- made while the table was small would scan all of it, and would stay after it has grown.
-- One plan for each statement: planning anew for every batch costs more than it can gain.
SELECT set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false), set_config('enable_mergejoin', 'off', false),
  set_config('plan_cache_mode', 'force_generic_plan', false)
