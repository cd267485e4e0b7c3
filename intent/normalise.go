package intent

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// Normaliser is a list of steps applied to one string argument, in the order of the
// config. Other kinds of values pass unchanged. Nothing is normalised unless a tool asks.
type Normaliser []string

var normalisers = map[string]func(string) string{
	"trim":           strings.TrimSpace,
	"lowercase":      strings.ToLower,
	"nfc":            norm.NFC.String,
	"collapse_space": func(s string) string { return strings.Join(strings.Fields(s), " ") },
}

// ParseNormaliser checks the steps' names: trim, lowercase, nfc, collapse_space.
func ParseNormaliser(steps []string) (Normaliser, error) {
	for _, s := range steps {
		if normalisers[s] == nil {
			return nil, fmt.Errorf("normaliser %q is not one of %v", s, sortedKeys(normalisers))
		}
	}
	return slices.Clone(steps), nil
}

func (n Normaliser) apply(v Value) Value {
	if v.kind != String {
		return v
	}
	for _, step := range n {
		v.text = normalisers[step](v.text)
	}
	return v
}
