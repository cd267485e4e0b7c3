-- settled: the ids up to which nothing should turn up any more. An id is given before its
-- transaction commits, so another replica's smaller one may show later; two seconds are
-- many times what a transaction takes from the one to the other.
SELECT
  coalesce((SELECT id FROM attempts WHERE written_at < now() - interval '2 seconds' ORDER BY id DESC LIMIT 1), 0),
  coalesce((SELECT id FROM audit WHERE written_at < now() - interval '2 seconds' ORDER BY id DESC LIMIT 1), 0)
