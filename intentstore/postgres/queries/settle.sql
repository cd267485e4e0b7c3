-- settle: applies a batch of settlements with the meaning of intent.Receipt.Apply, each
-- only if its row still has the fence and one of the statuses that the move leads from
-- (intent.Moves). Returns what a move keeps and may change without it: where they are those
-- of the receipt which the settlement was made of, its version plus one, the caller knows
-- the row.
UPDATE intents i SET
  status            = s.status,
  retry             = s.retry,
  retry_after       = s.retry_after,
  reason            = s.reason,
  settled_by        = s.settled_by,
  evidence          = s.evidence,
  outcome_status    = s.outcome_status,
  outcome_headers   = s.outcome_headers,
  outcome_body      = s.outcome_body,
  outcome_truncated = s.outcome_truncated,
  outcome_length    = s.outcome_length,
  outcome_sha256    = s.outcome_sha256,
  unknown_since     = CASE WHEN s.status = 'unknown' THEN s.at ELSE i.unknown_since END,
  settled_at        = CASE WHEN s.status = 'unknown' THEN i.settled_at ELSE s.at END,
  sealed            = CASE WHEN s.status = 'unknown' THEN i.sealed END,
  executions        = i.executions - s.unsent,
  next_check        = s.next_check,
  parked            = s.parked,
  notify_at         = s.notify_at,
  notices           = 0,
  version           = i.version + 1
FROM unnest
  ($1::bytea[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::bytea[],
   $10::integer[], $11::bytea[], $12::bytea[], $13::boolean[], $14::bigint[], $15::text[], $16::timestamptz[], $17::integer[],
   $18::timestamptz[], $19::text[], $20::timestamptz[])
  AS s (key, fence, from_words, status, retry, retry_after, reason, settled_by, evidence,
   outcome_status, outcome_headers, outcome_body, outcome_truncated, outcome_length, outcome_sha256, at, unsent,
   next_check, parked, notify_at)
WHERE i.key = s.key AND i.fence = s.fence AND i.status = ANY (string_to_array(s.from_words, ' '))
RETURNING i.key, i.version, i.checks, coalesce(i.doubt, '')
