-- open: how many of a tenant's rows wait for what, and since when.
SELECT tool, what, count(*), min(since)
FROM (
  SELECT tool, 'unknown' AS what, unknown_since AS since FROM intents WHERE tenant = ?1 AND attention = 1 AND status = 'unknown'
  UNION ALL
  SELECT tool, 'parked', unknown_since FROM intents WHERE tenant = ?1 AND attention = 1 AND parked IS NOT NULL
  UNION ALL
  SELECT tool, 'awaiting_approval', created_at FROM intents WHERE tenant = ?1 AND attention = 1 AND status = 'awaiting_approval'
  UNION ALL
  SELECT tool, 'doubt', created_at FROM intents WHERE tenant = ?1 AND attention = 1 AND doubt IS NOT NULL
) AS waiting
GROUP BY tool, what
ORDER BY tool, what
