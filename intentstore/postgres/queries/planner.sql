-- planner: for the whole session. Every statement finds its rows by key or index; a plan
-- made while the table was small would scan all of it, and would stay after it has grown.
SELECT set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false), set_config('enable_mergejoin', 'off', false)
