package postgres

import _ "embed" // the statements are files, one each, with a comment that says what they do

var (
	//go:embed queries/planner.sql
	plannerSQL string

	//go:embed queries/begin.sql
	beginSQL string
	//go:embed queries/stands.sql
	standsSQL string
	//go:embed queries/again.sql
	againSQL string
	//go:embed queries/barrier.sql
	barrierSQL string
	//go:embed queries/settle.sql
	settleSQL string
	//go:embed queries/archive.sql
	archiveSQL string
	//go:embed queries/get.sql
	getSQL string
	//go:embed queries/list.sql
	listSQL string
	//go:embed queries/bounded.sql
	boundedSQL string

	//go:embed queries/overdue.sql
	overdueSQL string
	//go:embed queries/expire.sql
	expireSQL string
	//go:embed queries/forget.sql
	forgetSQL string
	//go:embed queries/forget_executions.sql
	forgetExecutionsSQL string
	//go:embed queries/forget_attempts.sql
	forgetAttemptsSQL string
	//go:embed queries/forget_audit.sql
	forgetAuditSQL string
	//go:embed queries/heartbeat.sql
	heartbeatSQL string

	//go:embed queries/record.sql
	recordSQL string
	//go:embed queries/off.sql
	offSQL string
	//go:embed queries/attempts.sql
	attemptsSQL string
	//go:embed queries/attempts_count.sql
	attemptsCountSQL string
	//go:embed queries/executions.sql
	executionsSQL string

	//go:embed queries/replace.sql
	replaceSQL string
	//go:embed queries/due.sql
	dueSQL string
	//go:embed queries/audit.sql
	auditSQL string
	//go:embed queries/settled.sql
	settledSQL string
	//go:embed queries/arrivals.sql
	arrivalsSQL string
	//go:embed queries/entries.sql
	entriesSQL string
	//go:embed queries/count.sql
	countSQL string
	//go:embed queries/counts.sql
	countsSQL string
	//go:embed queries/open.sql
	openSQL string
)
