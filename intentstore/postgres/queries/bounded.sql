-- bounded: the server itself ends the rest of this transaction after so many milliseconds:
-- the client cannot, it never sends a cancel request. And it plans for the values given.
SELECT set_config('statement_timeout', $1::text, true), set_config('plan_cache_mode', 'force_custom_plan', true)
