-- The tables of DESIGN §3. Safe to run while replicas of any version are up: it only adds.
-- Words and bodies are kept as text and bytes, never as enum or jsonb: a 204, an empty body,
-- null, PNG bytes and 64-bit numbers come back byte for byte, and a new word is no DDL.

-- +goose Up

-- One row per key. This row is the arbiter: written before the effect, it is the only
-- permission to act (DESIGN §4). The CHECKs repeat intent.Moves and the invariants of the
-- statuses; a test compares them with the code.
CREATE TABLE intents (
  key               bytea       NOT NULL PRIMARY KEY,
  guard             bytea       NOT NULL,
  fingerprint       bytea       NOT NULL,
  tenant            text        NOT NULL,
  tool              text        NOT NULL,
  class             text        NOT NULL,
  durability        text        NOT NULL,
  run_id            text        NOT NULL,
  step_id           text        NOT NULL,
  occurrence        integer     NOT NULL,
  args              bytea,
  status            text        NOT NULL,
  retry             text        NOT NULL,
  retry_after       bigint      NOT NULL, -- microseconds
  reason            text        NOT NULL,
  expired           boolean     NOT NULL DEFAULT false,
  fence             bigint      NOT NULL,
  version           bigint      NOT NULL,
  claim_id          bytea       NOT NULL,
  attempts          integer     NOT NULL,
  executions        integer     NOT NULL,
  created_at        timestamptz NOT NULL,
  started_at        timestamptz,
  settle_by         timestamptz,
  unknown_since     timestamptz,
  settled_at        timestamptz,
  settled_by        text        NOT NULL DEFAULT '',
  evidence          bytea,
  traceparent       text        NOT NULL,
  replica           text        NOT NULL,
  region            text        NOT NULL,
  outcome_status    integer,              -- NULL: there is no outcome
  outcome_headers   bytea,                -- JSON object
  outcome_body      bytea,
  outcome_truncated boolean     NOT NULL DEFAULT false,
  outcome_length    bigint      NOT NULL DEFAULT 0,
  outcome_sha256    text        NOT NULL DEFAULT '',
  barriers          integer     NOT NULL DEFAULT 0, -- acknowledged writes that resolved an ambiguous commit
  -- What goes on while it waits. A call that is answered in time never sets these.
  next_check        timestamptz,          -- the next lookup or retry; awaiting approval: it expires
  parked            text,                 -- why only a person goes on; NULL: not parked
  notify_at         timestamptz,          -- when people are told
  notices           integer     NOT NULL DEFAULT 0,
  checks            integer     NOT NULL DEFAULT 0,
  approved_by       bytea,                -- JSON array of credential ids; NULL: nobody
  doubt             text,                 -- NULL: none
  template          text        NOT NULL DEFAULT '',
  sealed            bytea,                -- encrypted arguments, until it is settled
  -- intent.Receipt.Attention, for an index that a call answered in time never touches.
  attention         boolean     GENERATED ALWAYS AS (CASE WHEN (status IN ('unknown', 'awaiting_approval') OR doubt IS NOT NULL) AND NOT expired THEN true END) STORED,

  CONSTRAINT intents_digests    CHECK (octet_length(key) = 32 AND octet_length(guard) = 32 AND octet_length(fingerprint) = 32 AND octet_length(claim_id) = 16),
  CONSTRAINT intents_class      CHECK (class IN ('read_only', 'idempotent', 'effectful', 'irreversible')),
  CONSTRAINT intents_durability CHECK (durability IN ('durable', 'hot')),
  CONSTRAINT intents_status     CHECK (status IN ('awaiting_approval', 'started', 'unknown', 'completed', 'rejected')),
  CONSTRAINT intents_retry      CHECK (retry IN ('never', 'same_key', 'corrected')),
  -- Only started and rejected rows tell a caller that it may call again.
  CONSTRAINT intents_may_retry  CHECK (retry = 'never' OR status IN ('started', 'rejected')),
  CONSTRAINT intents_fence      CHECK (fence >= 1),
  -- Without an execution a row waits for approval or was declined.
  CONSTRAINT intents_started    CHECK (started_at IS NOT NULL OR status NOT IN ('started', 'unknown', 'completed')),
  CONSTRAINT intents_awaiting   CHECK (status <> 'awaiting_approval' OR started_at IS NULL),
  CONSTRAINT intents_parked     CHECK (parked IS NULL OR status = 'unknown'),
  CONSTRAINT intents_next_check CHECK (next_check IS NULL OR status IN ('unknown', 'awaiting_approval')),
  CONSTRAINT intents_sealed     CHECK (sealed IS NULL OR status NOT IN ('completed', 'rejected')),
  CONSTRAINT intents_counted    CHECK (checks >= 0 AND notices >= 0 AND executions >= 0),
  CONSTRAINT intents_unsettled  CHECK (status NOT IN ('awaiting_approval', 'started') OR outcome_status IS NULL),
  CONSTRAINT intents_unknown    CHECK (status <> 'unknown' OR unknown_since IS NOT NULL),
  -- Settled, by whom and when: all or none.
  CONSTRAINT intents_settled    CHECK (CASE WHEN status IN ('completed', 'rejected') THEN settled_at IS NOT NULL AND settled_by <> '' ELSE settled_at IS NULL END),
  CONSTRAINT intents_expired    CHECK (NOT expired OR status IN ('completed', 'rejected') AND outcome_status IS NULL AND outcome_body IS NULL),
  CONSTRAINT intents_outcome    CHECK (outcome_status IS NOT NULL OR outcome_body IS NULL AND outcome_headers IS NULL)
);

-- One key at a time may hold a guard; a rejected key has let go of it.
CREATE UNIQUE INDEX intents_guard ON intents (guard) WHERE status <> 'rejected';
-- Lists, newest first, of a tenant and of one run. Every settlement writes to every index
-- again, because the guard's depends on the status; so they are few and narrow.
CREATE INDEX intents_tenant ON intents (tenant, created_at DESC);
CREATE INDEX intents_run ON intents (run_id);
-- The look for lost leases, for results past their retention, and for old tombstones.
CREATE INDEX intents_overdue ON intents (started_at) WHERE status = 'started';
CREATE INDEX intents_settled ON intents (settled_at) WHERE settled_at IS NOT NULL AND NOT expired;
CREATE INDEX intents_expired ON intents (settled_at) WHERE expired;
-- What is to be checked, what people are to be told, and what they have to see to.
CREATE INDEX intents_check ON intents (next_check) WHERE next_check IS NOT NULL;
CREATE INDEX intents_notify ON intents (notify_at) WHERE notify_at IS NOT NULL;
CREATE INDEX intents_attention ON intents (tenant, created_at DESC) WHERE attention;

-- Executions that a later one of the same key has superseded. The current one is the
-- intent's own row.
CREATE TABLE executions (
  key         bytea       NOT NULL,
  fence       bigint      NOT NULL CHECK (fence >= 1),
  claim_id    bytea       NOT NULL,
  started_at  timestamptz,
  ended_at    timestamptz,
  status      text        NOT NULL CHECK (status IN ('unknown', 'rejected')),
  retry       text        NOT NULL,
  reason      text        NOT NULL,
  http_status integer     NOT NULL,       -- 0: no answer
  traceparent text        NOT NULL,
  replica     text        NOT NULL,
  region      text        NOT NULL,
  PRIMARY KEY (key, fence)
);

-- Every arrival of a call, written in batches off the hot path; a repeated batch may leave
-- an arrival twice, so nothing here is unique.
CREATE TABLE attempts (
  id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key        bytea       NOT NULL,
  tenant     text        NOT NULL,
  tool       text        NOT NULL,
  at         timestamptz NOT NULL,
  decision   text        NOT NULL,
  trace_id   text        NOT NULL,
  span_id    text        NOT NULL,
  replica    text        NOT NULL,
  region     text        NOT NULL,
  credential text        NOT NULL,
  written_at timestamptz NOT NULL DEFAULT clock_timestamp() -- by this server; see settled.sql
);
CREATE INDEX attempts_key ON attempts (key, at);
CREATE INDEX attempts_trace ON attempts (trace_id);

-- What happened to a key besides arrivals and executions: who, when, what and why. Only ever
-- added to; the store needs no right to change or delete it.
CREATE TABLE audit (
  id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key         bytea       NOT NULL,
  tenant      text        NOT NULL,
  tool        text        NOT NULL,
  at          timestamptz NOT NULL,
  actor       text        NOT NULL CHECK (actor <> ''),
  action      text        NOT NULL,
  reason      text        NOT NULL,
  before      text        NOT NULL,
  after       text        NOT NULL,
  evidence    bytea,
  traceparent text        NOT NULL,
  written_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX audit_key ON audit (key, id);

-- What happened by the minute, so that numbers for people cost nothing that grows with the
-- calls. Rows of one batch are written in the order of the key.
CREATE TABLE counts (
  tenant text   NOT NULL,
  minute bigint NOT NULL, -- since 1970
  tool   text   NOT NULL,
  kind   text   NOT NULL,
  word   text   NOT NULL,
  n      bigint NOT NULL,
  PRIMARY KEY (tenant, minute, tool, kind, word)
);

-- One row that /readyz writes to: a reader that answers is no proof of a writer.
CREATE TABLE heartbeat (
  one bigint      NOT NULL PRIMARY KEY CHECK (one = 1),
  at  timestamptz NOT NULL
);
INSERT INTO heartbeat (one, at) VALUES (1, now());

-- +goose Down
DROP TABLE heartbeat;
DROP TABLE counts;
DROP TABLE audit;
DROP TABLE attempts;
DROP TABLE executions;
DROP TABLE intents;
