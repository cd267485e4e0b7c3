package history

// Tool is what the fleet calls and the target does. Its name is also that of the target's
// service, and of the tool in the gateway's config.
type Tool struct {
	Name  string
	Class string
	Share int // of the intents, out of the sum over all
	// Dedupes: the target acts once per forwarded key.
	Dedupes bool
	// Repeats: a second execution may leave a second entry and does no harm.
	Repeats bool
	// Hot: kept in Redis alone, so its promise ends with what Redis remembers.
	Hot bool
}

// Tools are those of every run: each way to end an unknown outcome is among them.
var Tools = []Tool{
	{Name: "mail", Class: "effectful", Share: 34},                   // on_unknown: lookup, absence is proof
	{Name: "charge", Class: "effectful", Share: 24, Dedupes: true},  // on_unknown: retry
	{Name: "ticket", Class: "effectful", Share: 14},                 // on_unknown: park
	{Name: "wire", Class: "irreversible", Share: 4},                 // approved first; lookup, absence proves nothing
	{Name: "status", Class: "idempotent", Share: 10, Repeats: true}, // on_unknown: retry
	{Name: "ping", Class: "effectful", Share: 8, Hot: true},         // hot, park
	{Name: "search", Class: "read_only", Share: 6, Repeats: true},   // no receipt
}

// ToolNamed returns a tool of Tools.
func ToolNamed(name string) Tool {
	for _, t := range Tools {
		if t.Name == name {
			return t
		}
	}
	return Tool{}
}
