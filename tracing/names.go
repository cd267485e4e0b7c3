package tracing

// Spans. One server span a call; the others are below it. A person's decision is below the
// request that it came with, one of many in a bulk run; what the reconciler does by itself is
// a root of its own.
const (
	SpanCall        = "latchkey.call"        // one arrival of a call, from the first byte to the answer (server)
	SpanClaim       = "latchkey.claim"       // asking for the exclusive right to act on a key
	SpanBegin       = "latchkey.begin"       // writing the intent ahead in the durable store
	SpanExecute     = "latchkey.execute"     // the one request to the downstream (client); receipts name this span
	SpanSettle      = "latchkey.settle"      // storing what came of the execution, then telling Redis
	SpanLookup      = "latchkey.lookup"      // asking the downstream whether the action happened (client)
	SpanApprove     = "latchkey.approve"     // a person approves an intent's exact arguments
	SpanDecline     = "latchkey.decline"     // a person declines an intent
	SpanResolve     = "latchkey.resolve"     // a person settles an unknown
	SpanReexecute   = "latchkey.reexecute"   // a person has an unknown executed again
	SpanWait        = "latchkey.wait"        // a person leaves an unknown as it is for a time
	SpanAcknowledge = "latchkey.acknowledge" // a person has seen to a doubt
	SpanReconcile   = "latchkey.reconcile"   // going on with an unknown, asked by a person or by the gateway itself
)

// Attributes of Latchkey's own. Never an argument, a result or a credential.
const (
	AttrKey      = "latchkey.key"      // the intent key, 64 hex digits: the receipt's address
	AttrTool     = "latchkey.tool"     // the tool's name; of calls, as the catalogue spells it
	AttrClass    = "latchkey.class"    // read_only, idempotent, effectful, irreversible
	AttrDecision = "latchkey.decision" // what became of the arrival: executed, collapsed, replayed, mismatch, step_conflict, refused, pending
	AttrStatus   = "latchkey.status"   // where the key stands: awaiting_approval, started, unknown, completed, rejected
	AttrFence    = "latchkey.fence"    // which execution of the key: 1, 2, 3 ...
	AttrRunID    = "latchkey.run_id"   // the agent run, from the host program
	AttrStepID   = "latchkey.step_id"  // the step of the run
	AttrAttempt  = "latchkey.attempt"  // which arrival of the key, as far as this replica knows: 1, 2, 3 ...
	AttrReason   = "latchkey.reason"   // a bounded word that says why
	AttrLink     = "latchkey.link"     // on a link: what it leads to
	AttrForced   = "latchkey.forced"   // true: kept although the head sampler said no

	LinkExecution = "execution" // AttrLink of a link to an execution's span
)

// Attributes of OpenTelemetry's semantic conventions (v1.43) that spans and the resource
// carry. No path, query, statement or command: those hold arguments.
const (
	AttrHTTPMethod   = "http.request.method"       // upper case; _OTHER when it is none of RFC 9110's
	AttrHTTPRoute    = "http.route"                // the matched pattern, never the path
	AttrHTTPStatus   = "http.response.status_code" // as sent or received
	AttrServerHost   = "server.address"            // the downstream's host
	AttrServerPort   = "server.port"               // the downstream's port
	AttrErrorType    = "error.type"                // an HTTP status or a bounded word
	AttrDBSystem     = "db.system.name"            // redis, postgresql, sqlite
	AttrDBSystemOld  = "db.system"                 // the same under its former name, which back ends' service maps still read
	AttrDBOperation  = "db.operation.name"         // the verb: claim, begin, settle, get ...
	AttrServiceName  = "service.name"              // latchkey
	AttrVersion      = "service.version"           // the build's version
	AttrReplica      = "service.instance.id"       // the replica, as in receipts and attempts
	AttrCloudRegion  = "cloud.region"              // the region, as in receipts and attempts
	ServiceName      = "latchkey"                  // value of AttrServiceName
	SystemRedis      = "redis"                     // value of AttrDBSystem
	SystemPostgreSQL = "postgresql"                // value of AttrDBSystem
	SystemSQLite     = "sqlite"                    // value of AttrDBSystem
)

// Metrics, named as Prometheus shows them; the OpenTelemetry instruments have the same
// names. All labels are bounded: see Label constants.
const (
	MetricAttempts        = "latchkey_attempts_total"                 // {tool,decision} arrivals of calls
	MetricExecutions      = "latchkey_executions_total"               // {tool,outcome} requests made to downstreams
	MetricDuplicates      = "latchkey_duplicates_prevented_total"     // {tool,how} arrivals that would have acted again
	MetricMismatches      = "latchkey_parameter_mismatches_total"     // {tool} same key, other arguments
	MetricStepConflicts   = "latchkey_step_conflicts_total"           // {tool} same slot, other key
	MetricUnknownOpen     = "latchkey_unknown_open"                   // {tool} keys whose outcome is unknown now
	MetricUnknownOldest   = "latchkey_unknown_oldest_seconds"         // {tool} how long the oldest of them has been
	MetricUnknownDuration = "latchkey_unknown_duration_seconds"       // {tool,settled_by} how long keys were unknown
	MetricReconciled      = "latchkey_unknown_reconciled_total"       // {tool,settled_by,outcome} unknowns settled
	MetricManual          = "latchkey_manual_recoveries_total"        // {tool,action} what people had to do
	MetricWithoutKey      = "latchkey_calls_without_stable_key_total" // {tool} refused: neither run and step nor a key
	MetricCallDuration    = "latchkey_call_duration_seconds"          // {tool,decision} arrival to answer
	MetricStepDuration    = "latchkey_step_duration_seconds"          // {step} claim, begin, execute, settle, lookup
	MetricBreakerState    = "latchkey_breaker_state"                  // {downstream} 0 closed, 1 half open, 2 open
	MetricInFlight        = "latchkey_downstream_in_flight"           // {downstream} requests under way
	MetricNearHits        = "latchkey_near_cache_hits_total"          // replays answered without a network trip
	MetricNearMisses      = "latchkey_near_cache_misses_total"        // calls that had to ask
	MetricNearBytes       = "latchkey_near_cache_bytes"               // completed receipts kept in memory
	MetricBatchSize       = "latchkey_store_batch_size"               // rows in one statement of the durable store
	MetricJournalDropped  = "latchkey_journal_dropped_total"          // attempts that the journal does not list
	MetricNotifications   = "latchkey_notifications_total"            // {outcome} messages to people: sent, failed
	MetricApprovals       = "latchkey_approvals_waiting"              // {tool} intents that wait for a person
	MetricRedisUp         = "latchkey_redis_up"                       // 1; 0 while this replica goes on without Redis
	MetricStoreUp         = "latchkey_store_up"                       // 1; 0 while the durable store cannot be written
	MetricSpansDropped    = "latchkey_spans_dropped_total"            // {reason} spans that the collector did not get
)

// Labels of metrics and the words that they take. A tool or downstream that is not in the
// catalogue never becomes a label.
const (
	LabelTool       = "tool"       // a name of the catalogue, or UnknownTool
	LabelDecision   = "decision"   // as AttrDecision
	LabelOutcome    = "outcome"    // of executions: completed, rejected, unknown, not_sent; of unknowns: completed, rejected; of notifications: sent, failed
	LabelHow        = "how"        // collapsed, replayed, pending, mismatch, step_conflict
	LabelSettledBy  = "settled_by" // downstream, gateway, lookup, operator
	LabelAction     = "action"     // approve, decline, resolve, reconcile, reexecute, wait, acknowledge
	LabelStep       = "step"       // claim, begin, execute, settle, lookup
	LabelDownstream = "downstream" // a name of the configuration
	LabelReason     = "reason"     // of dropped spans: queue_full, export_failed, replay_limit

	UnknownTool = "unknown_tool" // LabelTool of a name that is not in the catalogue
	OtherWord   = "other"        // stands for a word that is not of the list above
)

// Fields of the canonical log line, one per call. Never an argument, a result, a credential
// or more than 8 characters of a key.
const (
	LogLine       = "call"               // the line's message
	LogTool       = "tool"               // the tool's name; UnknownTool when it is not in the catalogue
	LogClass      = "class"              // as AttrClass
	LogDecision   = "decision"           // as AttrDecision
	LogStatus     = "status"             // as AttrStatus; absent without a receipt
	LogHTTPStatus = "http_status"        // of the answer
	LogCode       = "code"               // the problem's code, when the answer is one
	LogReason     = "reason"             // a bounded word that says why
	LogKey        = "key"                // the first 8 hex digits of the key
	LogFence      = "fence"              // as AttrFence
	LogAttempt    = "attempt"            // as AttrAttempt
	LogRunID      = "run_id"             // the agent run
	LogStepID     = "step_id"            // the step of the run
	LogTenant     = "tenant"             // whose agent called
	LogCredential = "credential"         // the id of the API key
	LogTraceID    = "trace_id"           // of this attempt
	LogSpanID     = "span_id"            // of this attempt
	LogExecution  = "execution_trace_id" // trace id of the execution that this attempt joined or met
	LogDuration   = "duration_ms"        // arrival to answer
	LogSteps      = "steps_ms"           // a group: claim, begin, execute, settle, lookup; those that were taken
)
