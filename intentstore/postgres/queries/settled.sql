-- settled: the ids up to which nothing can turn up any more. An id is given before its
-- transaction commits, so another replica's smaller one may show later; but no transaction
-- that gives ids lasts as long as two seconds.
SELECT
  coalesce((SELECT id FROM attempts WHERE written_at < now() - interval '2 seconds' ORDER BY id DESC LIMIT 1), 0),
  coalesce((SELECT id FROM audit WHERE written_at < now() - interval '2 seconds' ORDER BY id DESC LIMIT 1), 0)
