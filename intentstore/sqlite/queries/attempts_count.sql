-- attempts_count: how many arrivals of a key there are in all.
SELECT count(*) FROM attempts WHERE key = ?1
