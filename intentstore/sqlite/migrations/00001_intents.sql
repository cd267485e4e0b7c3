-- The same tables as in PostgreSQL, in SQLite's types: times are microseconds since 1970 in
-- UTC (NULL: not set), booleans are 0 and 1, bodies and arguments are bytes.

-- +goose Up

-- One row per key, written before the effect: the arbiter (DESIGN §4). The CHECKs repeat
-- intent.Moves and the invariants of the statuses; a test compares them with the code.
CREATE TABLE intents (
  key               BLOB    NOT NULL PRIMARY KEY,
  guard             BLOB    NOT NULL,
  fingerprint       BLOB    NOT NULL,
  tenant            TEXT    NOT NULL,
  tool              TEXT    NOT NULL,
  class             TEXT    NOT NULL,
  durability        TEXT    NOT NULL,
  run_id            TEXT    NOT NULL,
  step_id           TEXT    NOT NULL,
  occurrence        INTEGER NOT NULL,
  args              BLOB,
  status            TEXT    NOT NULL,
  retry             TEXT    NOT NULL,
  retry_after       INTEGER NOT NULL, -- microseconds
  reason            TEXT    NOT NULL,
  expired           INTEGER NOT NULL,
  fence             INTEGER NOT NULL,
  version           INTEGER NOT NULL,
  claim_id          BLOB    NOT NULL,
  attempts          INTEGER NOT NULL,
  executions        INTEGER NOT NULL,
  created_at        INTEGER NOT NULL,
  started_at        INTEGER,
  settle_by         INTEGER,
  unknown_since     INTEGER,
  settled_at        INTEGER,
  settled_by        TEXT    NOT NULL,
  evidence          BLOB,
  traceparent       TEXT    NOT NULL,
  replica           TEXT    NOT NULL,
  region            TEXT    NOT NULL,
  outcome_status    INTEGER,          -- NULL: there is no outcome
  outcome_headers   BLOB,             -- JSON object
  outcome_body      BLOB,
  outcome_truncated INTEGER NOT NULL,
  outcome_length    INTEGER NOT NULL,
  outcome_sha256    TEXT    NOT NULL,
  next_check        INTEGER,          -- the next lookup or retry; awaiting approval: it expires
  parked            TEXT,             -- why only a person goes on; NULL: not parked
  notify_at         INTEGER,          -- when people are told
  notices           INTEGER NOT NULL,
  checks            INTEGER NOT NULL,
  approved_by       BLOB,             -- JSON array of credential ids; NULL: nobody
  doubt             TEXT,             -- NULL: none
  template          TEXT    NOT NULL,
  sealed            BLOB,             -- encrypted arguments, until it is settled
  -- intent.Receipt.Attention, for an index that a call answered in time never touches.
  attention         INTEGER GENERATED ALWAYS AS (CASE WHEN (status IN ('unknown', 'awaiting_approval') OR doubt IS NOT NULL) AND NOT expired THEN 1 END) VIRTUAL,

  CONSTRAINT intents_digests    CHECK (length(key) = 32 AND length(guard) = 32 AND length(fingerprint) = 32 AND length(claim_id) = 16),
  CONSTRAINT intents_class      CHECK (class IN ('read_only', 'idempotent', 'effectful', 'irreversible')),
  CONSTRAINT intents_durability CHECK (durability IN ('durable', 'hot')),
  CONSTRAINT intents_status     CHECK (status IN ('awaiting_approval', 'started', 'unknown', 'completed', 'rejected')),
  CONSTRAINT intents_retry      CHECK (retry IN ('never', 'same_key', 'corrected')),
  CONSTRAINT intents_may_retry  CHECK (retry = 'never' OR status IN ('started', 'rejected')),
  CONSTRAINT intents_fence      CHECK (fence >= 1),
  CONSTRAINT intents_started    CHECK (started_at IS NOT NULL OR status NOT IN ('started', 'unknown', 'completed')),
  CONSTRAINT intents_awaiting   CHECK (status <> 'awaiting_approval' OR started_at IS NULL),
  CONSTRAINT intents_parked     CHECK (parked IS NULL OR status = 'unknown'),
  CONSTRAINT intents_next_check CHECK (next_check IS NULL OR status IN ('unknown', 'awaiting_approval')),
  CONSTRAINT intents_sealed     CHECK (sealed IS NULL OR status NOT IN ('completed', 'rejected')),
  CONSTRAINT intents_counted    CHECK (checks >= 0 AND notices >= 0 AND executions >= 0),
  CONSTRAINT intents_unsettled  CHECK (status NOT IN ('awaiting_approval', 'started') OR outcome_status IS NULL),
  CONSTRAINT intents_unknown    CHECK (status <> 'unknown' OR unknown_since IS NOT NULL),
  CONSTRAINT intents_settled    CHECK (CASE WHEN status IN ('completed', 'rejected') THEN settled_at IS NOT NULL AND settled_by <> '' ELSE settled_at IS NULL END),
  CONSTRAINT intents_expired    CHECK (NOT expired OR status IN ('completed', 'rejected') AND outcome_status IS NULL AND outcome_body IS NULL),
  CONSTRAINT intents_outcome    CHECK (outcome_status IS NOT NULL OR outcome_body IS NULL AND outcome_headers IS NULL)
) STRICT;

-- One key at a time may hold a guard; a rejected key has let go of it.
CREATE UNIQUE INDEX intents_guard ON intents (guard) WHERE status <> 'rejected';
CREATE INDEX intents_tenant ON intents (tenant, created_at DESC);
CREATE INDEX intents_run ON intents (run_id);
CREATE INDEX intents_overdue ON intents (started_at) WHERE status = 'started';
CREATE INDEX intents_settled ON intents (settled_at) WHERE settled_at IS NOT NULL AND expired = 0;
CREATE INDEX intents_expired ON intents (settled_at) WHERE expired = 1;
CREATE INDEX intents_check ON intents (next_check) WHERE next_check IS NOT NULL;
CREATE INDEX intents_notify ON intents (notify_at) WHERE notify_at IS NOT NULL;
CREATE INDEX intents_attention ON intents (tenant, created_at DESC) WHERE attention = 1;

-- Executions that a later one of the same key has superseded.
CREATE TABLE executions (
  key         BLOB    NOT NULL,
  fence       INTEGER NOT NULL CHECK (fence >= 1),
  claim_id    BLOB    NOT NULL,
  started_at  INTEGER,
  ended_at    INTEGER,
  status      TEXT    NOT NULL CHECK (status IN ('unknown', 'rejected')),
  retry       TEXT    NOT NULL,
  reason      TEXT    NOT NULL,
  http_status INTEGER NOT NULL,
  traceparent TEXT    NOT NULL,
  replica     TEXT    NOT NULL,
  region      TEXT    NOT NULL,
  PRIMARY KEY (key, fence)
) STRICT;

-- Every arrival of a call. An id is never given twice: whoever watches goes on from one.
CREATE TABLE attempts (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  key        BLOB    NOT NULL,
  tenant     TEXT    NOT NULL,
  tool       TEXT    NOT NULL,
  at         INTEGER NOT NULL,
  decision   TEXT    NOT NULL,
  trace_id   TEXT    NOT NULL,
  span_id    TEXT    NOT NULL,
  replica    TEXT    NOT NULL,
  region     TEXT    NOT NULL,
  credential TEXT    NOT NULL
) STRICT;
CREATE INDEX attempts_key ON attempts (key, at);
CREATE INDEX attempts_trace ON attempts (trace_id);

-- What happened to a key besides arrivals and executions. Only ever added to.
CREATE TABLE audit (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  key         BLOB    NOT NULL,
  tenant      TEXT    NOT NULL,
  tool        TEXT    NOT NULL,
  at          INTEGER NOT NULL,
  actor       TEXT    NOT NULL CHECK (actor <> ''),
  action      TEXT    NOT NULL,
  reason      TEXT    NOT NULL,
  before      TEXT    NOT NULL,
  after       TEXT    NOT NULL,
  evidence    BLOB,
  traceparent TEXT    NOT NULL
) STRICT;
CREATE INDEX audit_key ON audit (key, id);

-- What happened by the minute.
CREATE TABLE counts (
  tenant TEXT    NOT NULL,
  minute INTEGER NOT NULL, -- since 1970
  tool   TEXT    NOT NULL,
  kind   TEXT    NOT NULL,
  word   TEXT    NOT NULL,
  n      INTEGER NOT NULL,
  PRIMARY KEY (tenant, minute, tool, kind, word)
) STRICT, WITHOUT ROWID;

-- One row that /readyz writes to.
CREATE TABLE heartbeat (
  one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  at  INTEGER NOT NULL
) STRICT;
INSERT INTO heartbeat (one, at) VALUES (1, 0);

-- +goose Down
DROP TABLE heartbeat;
DROP TABLE counts;
DROP TABLE audit;
DROP TABLE attempts;
DROP TABLE executions;
DROP TABLE intents;
