package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Mutant is one guard, broken.
type Mutant struct {
	Name  string // lower case, dashes
	Guard string // what the guard keeps from happening, as a sentence
	File  string // slash-separated, from the root of the repository
	Old   string // the guard's text; in the file exactly once
	New   string // what stands there instead
	Kills Suite  // what must turn red
	Needs Need   // what the suite needs besides Go
}

// Suite is the tests of one package that a pattern selects, as in go test.
type Suite struct {
	Package string // as ./lock
	Run     string
}

// Need is a server that a suite needs.
type Need uint8

// The servers that suites need. Tests that do not find one are skipped, and a mutant whose
// tests are all skipped is not killed.
const (
	Nothing Need = iota
	RedisServer
	PostgresServer
)

// All returns the list, in the order of the packages.
func All() []Mutant {
	var all []Mutant
	for _, list := range [][]Mutant{keys(), moves(), claims(), scripts(), rows(), postgresRows(), requests(), calls(), recoveries(), people()} {
		all = append(all, list...)
	}
	return all
}

// StaleError says that a mutant does not fit the code any more.
type StaleError struct {
	Mutant string
	File   string
	Found  int // how often the old text is in the file
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("mutant %s: its text is in %s %d times, not once", e.Mutant, e.File, e.Found)
}

// Mutated returns the file as the mutant has it; a *StaleError where the text is not there
// exactly once.
func (m Mutant) Mutated(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return nil, fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	if n := strings.Count(string(text), m.Old); n != 1 {
		return nil, &StaleError{Mutant: m.Name, File: m.File, Found: n}
	}
	return []byte(strings.Replace(string(text), m.Old, m.New, 1)), nil
}
