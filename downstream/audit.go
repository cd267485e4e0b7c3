package downstream

// Finding is one thing that an audit has to say about a tool.
type Finding struct {
	Tool     string   `json:"tool"`
	Severity Severity `json:"severity"`
	Field    string   `json:"field"`
	Msg      string   `json:"msg"`
}

// Severity of a finding.
type Severity string

const (
	// Unsafe: the promise cannot be kept for this tool; `latchkey check` exits 1.
	Unsafe Severity = "error"
	// Warning: it can, but somebody should know.
	Warning Severity = "warning"
)

// AuditRow is one line of the table that `latchkey check` prints.
type AuditRow struct {
	Tool       string `json:"tool"`
	Class      string `json:"class"`
	Identity   string `json:"identity"`
	Forwarding string `json:"forwarding"`
	Unknown    string `json:"on_unknown"`
	Retry      string `json:"retry"` // in plain words: what a second call would do
}

func (c *Catalogue) Audit() ([]AuditRow, []Finding) { return nil, nil }
