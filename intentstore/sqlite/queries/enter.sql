-- enter: one entry of the audit.
INSERT INTO audit (key, tenant, tool, at, actor, action, reason, before, after, evidence, traceparent)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
