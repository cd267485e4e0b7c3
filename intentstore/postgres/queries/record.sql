-- record: a batch of arrivals.
INSERT INTO attempts (key, tenant, tool, at, decision, trace_id, span_id, replica, region, credential)
SELECT *
FROM unnest($1::bytea[], $2::text[], $3::text[], $4::timestamptz[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[])
