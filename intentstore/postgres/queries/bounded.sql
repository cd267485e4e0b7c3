-- bounded: the server itself ends the rest of this transaction after so many milliseconds.
-- The client cannot: it never sends a cancel request.
SELECT set_config('statement_timeout', $1::text, true)
