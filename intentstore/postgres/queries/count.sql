-- count: adds to counts. The rows come sorted by key, so that two batches wait for each
-- other and never in a circle.
INSERT INTO counts (tenant, minute, tool, kind, word, n)
SELECT *
FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[])
ON CONFLICT (tenant, minute, tool, kind, word) DO UPDATE SET n = counts.n + excluded.n
