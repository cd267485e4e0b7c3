package intent

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Rules say which arguments of a tool make up an intention. They come from the tool's
// config and are the same for every call.
type Rules struct {
	Tool      string
	StepGuard bool                  // one key at a time may hold a slot
	Identity  []Pointer             // empty: all arguments that are not volatile
	Volatile  []Pointer             // left out of identity and fingerprint
	Normalise map[string]Normaliser // by JSON Pointer
	Redact    []Pointer             // masked wherever arguments are kept or shown
}

// Call is what a caller asked for, before any derivation.
type Call struct {
	Tenant     string // from the credential, never from the body
	RunID      string // given by the host program, never by the model
	StepID     string
	Occurrence int
	Explicit   string // Idempotency-Key; then RunID and StepID are labels only
	Args       Value
}

// Identity is what a call means.
type Identity struct {
	Key         Key
	Guard       Guard
	Fingerprint Fingerprint
	Args        Value // normalised: what is sent, shown (less redactions) and approved
}

// Derive normalises the arguments and derives key, guard and fingerprint (DESIGN §2):
//
//	slot        = sha256(v1, tenant, run, step, occurrence, tool)
//	key         = sha256(slot, canonical(identity arguments))
//	key         = sha256(v1, tenant, tool, explicit key)       where there is one
//	fingerprint = sha256(v1, canonical(arguments less volatile))
//
// every field length-prefixed, each kind of digest with its own label. An explicit key
// moves all arguments to the fingerprint and guards nothing but itself.
func (r *Rules) Derive(c Call) Identity {
	args := r.Normalised(c.Args)
	stable := args
	for _, p := range r.Volatile {
		stable = stable.Edit(p, func(Value) Value { return Value{} })
	}
	id := Identity{Args: args}
	canonical := stable.AppendCanonical(make([]byte, 0, 512))
	buf := appendFields(make([]byte, 0, 1024), "latchkey/v1/fingerprint")
	buf = appendField(buf, canonical)
	id.Fingerprint = sha256.Sum256(buf)

	if c.Explicit != "" {
		id.Key = Key(digest("latchkey/v1/explicit", c.Tenant, r.Tool, c.Explicit))
		id.Guard = Guard(id.Key)
		return id
	}
	slot := digest("latchkey/v1/slot", c.Tenant, c.RunID, c.StepID, strconv.Itoa(c.Occurrence), r.Tool)
	buf = appendFields(buf[:0], "latchkey/v1/key")
	buf = appendField(buf, slot[:])
	if len(r.Identity) == 0 {
		buf = appendField(buf, canonical)
	} else {
		// Sorted by pointer, so that reordering the list in the config renames nothing.
		// An absent argument is not the same as null: it adds no value field.
		pointers := make([]string, len(r.Identity))
		for i, p := range r.Identity {
			pointers[i] = p.String()
		}
		slices.Sort(pointers)
		for _, s := range pointers {
			p, _ := ParsePointer(s)
			if v := args.At(p); v.Exists() {
				canonical = v.AppendCanonical(canonical[:0])
				buf = appendField(appendFields(buf, "present", s), canonical)
			} else {
				buf = appendFields(buf, "absent", s)
			}
		}
	}
	id.Key = sha256.Sum256(buf)
	id.Guard = Guard(id.Key)
	if r.StepGuard {
		id.Guard = Guard(slot)
	}
	return id
}

// Normalised returns the arguments as they are compared, validated, shown and sent.
func (r *Rules) Normalised(args Value) Value {
	for _, p := range sortedKeys(r.Normalise) {
		pointer, _ := ParsePointer(p) // config saw to it
		args = args.Edit(pointer, r.Normalise[p].apply)
	}
	return args
}

// Redacted returns the arguments as they may be kept and shown: each redacted value is
// replaced by the string "[redacted]".
func (r *Rules) Redacted(args Value) Value {
	for _, p := range r.Redact {
		args = args.Edit(p, func(Value) Value { return StringValue("[redacted]") })
	}
	return args
}

// Limits of what names a run, a step or an explicit key, in bytes.
const (
	MaxID         = 255
	MaxOccurrence = 1 << 20
)

// CheckID says what is wrong with a run or step id: "" for nothing. Ids are 1 to 255 bytes
// of UTF-8 without control characters, so that they stay whole in logs, SQL and headers.
func CheckID(id string) string {
	switch {
	case id == "":
		return "must not be empty"
	case len(id) > MaxID:
		return "must not be longer than 255 bytes"
	case !utf8.ValidString(id):
		return "must be valid UTF-8"
	}
	for _, r := range id {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return "must not contain control characters (such as NUL or newline)"
		}
	}
	return ""
}

// CheckExplicit says what is wrong with an explicit key: "" for nothing. It is 1 to 255
// visible ASCII characters, as in the IETF's Idempotency-Key draft.
func CheckExplicit(key string) string {
	if key == "" || len(key) > MaxID {
		return "must be 1 to 255 characters"
	}
	for i := range len(key) {
		if key[i] <= 0x20 || key[i] >= 0x7f {
			return "must consist of visible ASCII characters"
		}
	}
	return ""
}

func digest(fields ...string) Digest {
	return sha256.Sum256(appendFields(make([]byte, 0, 512), fields...))
}

func appendFields(b []byte, fields ...string) []byte {
	for _, f := range fields {
		b = appendField(b, f)
	}
	return b
}

// appendField puts a field's length before it: joining with a separator would make run
// "a:b" step "c" equal run "a" step "b:c".
func appendField[T string | []byte](b []byte, f T) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(f))), f...)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
