-- insert: the write-ahead of an intent, or an archived receipt. Writes nothing where the key
-- or the guard is taken.
INSERT INTO intents (
  key, guard, fingerprint, tenant, tool, class, durability, run_id, step_id, occurrence, args,
  status, retry, retry_after, reason, expired, fence, version, claim_id, attempts, executions,
  created_at, started_at, settle_by, unknown_since, settled_at, settled_by, evidence, traceparent, replica, region,
  outcome_status, outcome_headers, outcome_body, outcome_truncated, outcome_length, outcome_sha256,
  next_check, parked, notify_at, notices, checks, approved_by, doubt, template, sealed)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31,
  ?32, ?33, ?34, ?35, ?36, ?37,
  ?38, ?39, ?40, ?41, ?42, ?43, ?44, ?45, ?46)
ON CONFLICT DO NOTHING
