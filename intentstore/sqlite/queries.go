package sqlite

import _ "embed" // the statements are files, one each, with a comment that says what they do

var (
	//go:embed queries/insert.sql
	insertSQL string
	//go:embed queries/move.sql
	moveSQL string
	//go:embed queries/get.sql
	getSQL string
	//go:embed queries/holder.sql
	holderSQL string
	//go:embed queries/ended.sql
	endedSQL string
	//go:embed queries/list.sql
	listSQL string

	//go:embed queries/overdue.sql
	overdueSQL string
	//go:embed queries/expire.sql
	expireSQL string
	//go:embed queries/forgettable.sql
	forgettableSQL string
	//go:embed queries/forget.sql
	forgetSQL string
	//go:embed queries/forget_executions.sql
	forgetExecutionsSQL string
	//go:embed queries/forget_attempts.sql
	forgetAttemptsSQL string
	//go:embed queries/heartbeat.sql
	heartbeatSQL string

	//go:embed queries/record.sql
	recordSQL string
	//go:embed queries/attempts.sql
	attemptsSQL string
	//go:embed queries/attempts_count.sql
	attemptsCountSQL string
	//go:embed queries/executions.sql
	executionsSQL string
)
