package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/latchkey-gateway/latchkey/intentstore/intentstoretest"
	"github.com/latchkey-gateway/latchkey/intentstore/sqlite"
)

func TestStore(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]func(*testing.T) string{
		"file":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "in?te#n t%20s.db") },
		"memory": func(*testing.T) string { return sqlite.Memory },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			intentstoretest.Exercise(t, func(t *testing.T) intentstoretest.Full { return open(t, path(t)) })
		})
	}
}

func open(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestChecks compares the words in the CHECK constraints with the code.
func TestChecks(t *testing.T) {
	t.Parallel()
	intentstoretest.Checks(t, os.DirFS("migrations"))
}
