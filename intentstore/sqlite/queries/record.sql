-- record: one arrival.
INSERT INTO attempts (key, tenant, tool, at, decision, trace_id, span_id, replica, region, credential)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
