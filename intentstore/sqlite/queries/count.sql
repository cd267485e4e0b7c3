-- count: adds to one count.
INSERT INTO counts (tenant, minute, tool, kind, word, n)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (tenant, minute, tool, kind, word) DO UPDATE SET n = n + excluded.n
