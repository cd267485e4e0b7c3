-- settled: the last ids given. One connection writes, so nothing comes before them any more.
SELECT (SELECT coalesce(max(id), 0) FROM attempts), (SELECT coalesce(max(id), 0) FROM audit)
