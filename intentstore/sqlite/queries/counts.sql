-- counts: a tenant's counts from one minute to another, in steps.
SELECT ?2 + (minute - ?2) / ?4 * ?4, tool, kind, word, sum(n) FROM counts
WHERE tenant = ?1 AND minute >= ?2 AND minute < ?3
GROUP BY 1, 2, 3, 4
ORDER BY 1, 2, 3, 4
