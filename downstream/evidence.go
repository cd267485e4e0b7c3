package downstream

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Bounds of what a receipt keeps of a lookup.
const (
	maxExcerpt = 2 << 10 // bytes of the answer's body
	maxDetail  = 300     // bytes of a rule's error
	maxAsked   = 1 << 10 // bytes of the request's method and path
)

const redacted = "[redacted]" // as intent.Rules.Redacted writes it

// evidence is what a receipt keeps of a lookup. Redacted arguments and the values of the
// downstream's static headers are masked in it, also where the answer repeats them.
type evidence struct {
	At          time.Time `json:"at"`
	Request     string    `json:"request"` // method and path
	HTTPStatus  int       `json:"http_status"`
	ContentType string    `json:"content_type,omitempty"`
	Proof       string    `json:"proof"`          // happened, absent or nothing
	Rule        string    `json:"rule,omitempty"` // that was true
	Why         string    `json:"why,omitempty"`  // nothing was proved
	Detail      string    `json:"detail,omitempty"`
	Body        *excerpt  `json:"body,omitempty"`
}

// excerpt is the beginning of a body. SHA256 is left out where something in it was masked:
// a hash of few unknown digits gives them away.
type excerpt struct {
	Length int64  `json:"length"`
	SHA256 string `json:"sha256,omitempty"`
	Text   string `json:"excerpt,omitempty"`
	Masked bool   `json:"masked,omitempty"`
}

// witness writes down what a lookup asked and saw.
type witness struct {
	call *Call
	at   time.Time
	saw  Observed
}

func (w *witness) finds(j judged) Finding {
	t := w.call.Tool
	hide, sure := t.masker(w.call.Args)
	doc := evidence{
		At: intent.Micros(w.at), Request: cut8(w.asked(), maxAsked), HTTPStatus: w.saw.HTTPStatus,
		ContentType: cut8(hide.text(w.saw.Header.Get("Content-Type")), 100),
		Proof:       j.proof.String(), Rule: j.rule, Why: j.why, Detail: cut8(hide.text(j.detail), maxDetail),
	}
	if w.saw.HTTPStatus != 0 && (len(w.saw.Body) > 0 || w.saw.Truncated) {
		doc.Body = w.excerpt(hide, sure)
	}
	b, err := json.Marshal(doc)
	if err != nil { // it holds text and numbers alone
		b = []byte(`{}`)
	}
	return Finding{Proof: j.proof, Outcome: j.outcome, Evidence: b, Why: j.why}
}

// asked is the request's method and path, with redacted arguments masked. What else it holds
// is in the receipt anyway.
func (w *witness) asked() string {
	t, f := w.call.Tool, filling{args: w.call.Args, runID: w.call.RunID, stepID: w.call.StepID}
	for _, p := range t.Rules.Redact {
		f.args = f.args.Edit(p, maskLeaves)
	}
	if w.call.Key != (intent.Key{}) {
		f.key = w.call.Key.String()
	}
	b := append([]byte(t.asks.method), ' ')
	b = append(b, t.target.prefix...)
	if target, err := t.asks.appendTarget(b, &f); err == nil {
		b = target
	}
	return strings.ReplaceAll(string(b), "%5Bredacted%5D", redacted)
}

// maskLeaves keeps the shape, so that a template that takes a part of it can be filled in.
func maskLeaves(v intent.Value) intent.Value {
	switch v.Kind() {
	case intent.Array:
		items := make([]intent.Value, len(v.Items()))
		for i, item := range v.Items() {
			items[i] = maskLeaves(item)
		}
		return intent.ArrayValue(items...)
	case intent.Object:
		members := make([]intent.Member, len(v.Members()))
		for i, member := range v.Members() {
			members[i] = intent.Member{Name: member.Name, Value: maskLeaves(member.Value)}
		}
		return intent.ObjectValue(members...)
	}
	return intent.StringValue(redacted)
}

func (w *witness) excerpt(hide masker, sure bool) *excerpt {
	o := w.saw
	if o.Truncated {
		x := &excerpt{Length: o.Length, SHA256: o.SHA256}
		if len(hide.words) > 0 || !sure {
			x.SHA256, x.Masked = "", true // it was not looked through
		}
		return x
	}
	x := &excerpt{Length: int64(len(o.Body))}
	if !sure {
		x.Masked = true // the answer may hold what nobody here can recognise
		return x
	}
	text := string(o.Body)
	shown := hide.text(text)
	if v, err := intent.Parse(o.Body); err == nil && len(hide.words) > 0 {
		plain := string(v.AppendJSON(nil))
		if masked := string(hide.json(v).AppendJSON(nil)); masked != plain {
			shown = masked // what an escape hid is found in the values
		}
	}
	x.Masked = shown != text
	x.Text = cut8(strings.ToValidUTF8(shown, "\ufffd"), maxExcerpt)
	if !x.Masked {
		sum := sha256.Sum256(o.Body)
		x.SHA256 = hex.EncodeToString(sum[:])
	}
	return x
}

// masker replaces words that must not be kept.
type masker struct {
	words    []string
	replacer *strings.Replacer
}

// masker masks a call's redacted arguments, in the spellings that answers have, and the
// downstream's static headers. sure is false where an argument is known only as redacted.
func (t *Tool) masker(args intent.Value) (m masker, sure bool) {
	sure = true
	var gather func(v intent.Value)
	gather = func(v intent.Value) {
		if text := v.Text(); text == redacted {
			sure = false
		} else if text != "" {
			m.words = append(m.words, text)
		}
		for _, item := range v.Items() {
			gather(item)
		}
		for _, member := range v.Members() {
			gather(member.Value)
		}
	}
	for _, p := range t.Rules.Redact {
		gather(args.At(p))
	}
	for _, value := range t.target.spec.Headers {
		for part := range strings.FieldsSeq(value) {
			if len(part) >= 8 { // shorter ones are words such as Bearer or v2
				m.words = append(m.words, part)
			}
		}
	}
	slices.SortFunc(m.words, func(a, b string) int { return len(b) - len(a) }) // one may hold another
	m.words = slices.Compact(m.words)
	var pairs []string
	for _, word := range m.words {
		quoted := string(intent.AppendString(nil, word))
		for _, spelling := range []string{word, quoted[1 : len(quoted)-1], url.QueryEscape(word), url.PathEscape(word), string(appendEscaped(nil, word)), html.EscapeString(word)} {
			pairs = append(pairs, spelling, redacted)
		}
	}
	m.replacer = strings.NewReplacer(pairs...)
	return m, sure
}

func (m masker) text(s string) string {
	if len(m.words) == 0 {
		return s
	}
	return m.replacer.Replace(s)
}

// json masks names, strings and numbers, whichever way they are escaped.
func (m masker) json(v intent.Value) intent.Value {
	switch v.Kind() {
	case intent.String:
		return intent.StringValue(m.text(v.Text()))
	case intent.Number:
		if m.text(v.Text()) != v.Text() {
			return intent.StringValue(redacted)
		}
	case intent.Array:
		items := make([]intent.Value, len(v.Items()))
		for i, item := range v.Items() {
			items[i] = m.json(item)
		}
		return intent.ArrayValue(items...)
	case intent.Object:
		members := make([]intent.Member, len(v.Members()))
		for i, member := range v.Members() {
			members[i] = intent.Member{Name: m.text(member.Name), Value: m.json(member.Value)}
		}
		return intent.ObjectValue(members...)
	}
	return v
}

// cut8 cuts a text to at most n bytes, between characters.
func cut8(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
