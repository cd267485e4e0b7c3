package rules_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/latchkey-gateway/latchkey/cmd/rules"
)

const own = rules.Module + "/"

func pkg(name string, imports ...string) rules.Package {
	return rules.Package{ImportPath: own + name, Imports: imports}
}

// Every example breaks a rule of DESIGN §8 unless it is marked fine.
func TestCheckLayers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pkg  rules.Package
		fine bool
	}{
		{pkg("intent", "strings"), true},
		{pkg("intent", own+"tracing"), false},
		{pkg("tracing", own+"intent"), false},
		{pkg("lock", own+"intent"), true},
		{pkg("lock", own+"lock/redislock"), false},
		{pkg("lock/redislock", own+"intent", own+"lock"), true},
		{pkg("lock/redislock", own+"lock/memlock"), false},
		{pkg("lock/redislock", own+"intentstore"), false},
		{pkg("intentstore", own+"lock"), false},
		{pkg("intentstore/postgres", own+"intentstore", own+"intent", own+"intentstore/group"), true},
		{pkg("intentstore/group", own+"intentstore"), false},
		{pkg("intentstore/postgres", own+"intentstore/sqlite"), false},
		{pkg("intentstore/sqlite", own+"downstream"), false},
		{pkg("downstream", own+"intent", own+"tracing"), true},
		{pkg("downstream", own+"lock"), false},
		{pkg("downstream", own+"intentstore"), false},
		{pkg("gateway/once", own+"intent", own+"lock", own+"intentstore", own+"downstream", own+"tracing"), true},
		{pkg("gateway/once", own+"lock/redislock"), false},
		{pkg("gateway/once", own+"intentstore/postgres"), false},
		{pkg("gateway/once", own+"gateway/sweep"), false},
		{pkg("gateway/once", own+"gateway"), false},
		{pkg("gateway/sweep", own+"gateway/once"), true},
		{pkg("gateway/sweep", own+"gateway"), false},
		{pkg("gateway/config", own+"gateway/once"), false},
		{pkg("gateway", own+"gateway/once", own+"gateway/config", own+"gateway/auth"), true},
		{pkg("gateway", own+"lock/memlock"), false},
		{pkg("gateway", own+"cmd/latchkey"), false},
		{pkg("loadtest/fleet", own+"gateway/once"), false},
		{pkg("cmd/latchkey/demo", own+"intent"), false},
		{pkg("cmd/latchkey", own+"gateway", own+"lock/redislock", own+"intentstore/postgres", own+"cmd/latchkey/demo"), true},
		{pkg("util"), false},
		{pkg("lock/redislock/scripts"), false},
	} {
		if got := rules.CheckLayers(rules.Layers, []rules.Package{c.pkg}); (len(got) == 0) != c.fine {
			t.Errorf("%s importing %v: %q, fine is %v", c.pkg.ImportPath, c.pkg.Imports, got, c.fine)
		}
	}
}

func TestCheckOwners(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pkg  rules.Package
		fine bool
	}{
		{pkg("gateway", "github.com/gin-gonic/gin", "net/http"), true},
		{pkg("gateway/once", "github.com/gin-gonic/gin"), false},
		{pkg("gateway/sweep", "github.com/gin-gonic/gin/binding"), false},
		{pkg("gateway", "github.com/redis/go-redis/v9"), false},
		{pkg("lock/redislock", "github.com/redis/go-redis/v9"), true},
		{pkg("gateway/once", "github.com/jackc/pgx/v5/pgxpool"), false},
		{pkg("intentstore/postgres", "github.com/jackc/pgx/v5/pgxpool"), true},
		{pkg("gateway/config", "github.com/jackc/pgx/v5/pgconn"), true},
		{pkg("gateway/config", "github.com/redis/go-redis/v9"), false},
		{pkg("lock", "net/http"), false},
		{pkg("intentstore", "net/http"), false},
		{pkg("intent", "net/http"), false},
		{pkg("gateway", "testing"), false},
		{pkg("lock/locktest", "testing"), true},
		{pkg("gateway", "testing/synctest"), false},
	} {
		if got := rules.CheckOwners(rules.Owners, []rules.Package{c.pkg}); (len(got) == 0) != c.fine {
			t.Errorf("%s importing %v: %q, fine is %v", c.pkg.ImportPath, c.pkg.Imports, got, c.fine)
		}
	}
}

func TestCheckDocs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, source string
		finding      string // "": none
	}{
		{"good", "// Package x does it.\npackage x\n\n// F is.\nfunc F() {}\n", ""},
		{"no doc", "package x\n", "0 package doc comments"},
		{"doc of another package", "// Package y does it.\npackage x\n", "must begin"},
		{"doc apart from the clause", "// Package x does it.\n\npackage x\n", "0 package doc comments"},
		{"vague name", "// Package util has it.\npackage util\n", "named after what it provides"},
		{"command", "// Command x runs.\npackage main\n\nfunc F() {}\n", ""},
		{"command without doc", "package main\n", "0 package doc comments"},
		{"function", "// Package x does it.\npackage x\n\nfunc F() {}\n", "F is exported"},
		{"unexported function", "// Package x does it.\npackage x\n\nfunc f() {}\n", ""},
		{"type", "// Package x does it.\npackage x\n\ntype T int\n", "T is exported"},
		{"type in a group", "// Package x does it.\npackage x\n\n// Types.\ntype (\n\tT int\n)\n", "T is exported"},
		{"method", "// Package x does it.\npackage x\n\n// T is.\ntype T[P any] int\n\nfunc (t *T[P]) M() {}\n", "M is exported"},
		{"method of an unexported type", "// Package x does it.\npackage x\n\ntype t int\n\nfunc (t) M() {}\n", ""},
		{"method that everybody knows", "// Package x does it.\npackage x\n\n// T is.\ntype T int\n\nfunc (T) Error() string { return \"\" }\n", ""},
		{"constant", "// Package x does it.\npackage x\n\nconst A, b = 1, 2\n", "A is exported"},
		{"constant with a line comment", "// Package x does it.\npackage x\n\nconst (\n\tA = 1 // is\n)\n", ""},
		{"enumeration", "// Package x does it.\npackage x\n\n// T is.\ntype T int\n\nconst (\n\tA T = iota\n\tB\n)\n", ""},
		{"constants of no type", "// Package x does it.\npackage x\n\nconst (\n\ta = iota\n\tB\n)\n", "B is exported"},
		{"variable in a commented group", "// Package x does it.\npackage x\n\n// Both.\nvar (\n\tA = 1\n\tB = 2\n)\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte(c.source), 0o600); err != nil {
				t.Fatal(err)
			}
			fset, parsed, err := rules.Parse(dir, []string{"x.go"})
			if err != nil {
				t.Fatal(err)
			}
			got := rules.CheckDocs("cmd/x", fset, parsed)
			if c.finding == "" && len(got) > 0 || c.finding != "" && (len(got) != 1 || !strings.Contains(got[0], c.finding)) {
				t.Errorf("findings %q, want %q", got, c.finding)
			}
		})
	}
}

func TestCheckText(t *testing.T) {
	t.Parallel()
	lines := func(n int) string { return strings.Repeat("x\n", n) }
	for _, c := range []struct {
		path, content string
		finding       string // "": none
	}{
		{"a.go", lines(450), ""},
		{"a.go", lines(451), "has 451 lines"},
		{"a_test.go", lines(451), ""},
		{"a.md", lines(451), ""},
		{"a.go", "// a\n// TO" + "DO: later\n", "a.go:2:"},
		{"a.go", "mastodon, methodology, hacksaw\n", ""},
		{"a.sql", "-- x\n-- FIX" + "ME\n", "a.sql:2:"},
		{"a.md", "Work in pro" + "gress", "a.md:1:"},
		{"a.md", "see /wo" + "rk/main", "a.md:1:"},
		{"a.md", "a\n<<<<" + "<<< HEAD\n", "a.md:2:"},
		{"a.lua", "-- KEYS[1] the guard, ARGV[1] the claim\nreturn 1\n", ""},
		{"a.lua", "return 1\n-- KEYS ARGV\n", "must begin with a comment"},
		{"a.lua", "-- KEYS[1] the guard\nreturn ARGV[1]\n", "must list ARGV"},
		{"a.lua", "-- the claim\nreturn KEYS[1]\n", "must list KEYS"},
		{"a.lua", "-- KEYS[1] the guard\nreturn KEYS[1]\n", ""},
		{"a.sql", "-- Reads one.\nSELECT 1;\n", ""},
		{"a.sql", "SELECT 1; -- reads one\n", "must begin with a comment"},
		{"a.sql", "-- +goose Up\nSELECT 1;\n", "must begin with a comment"},
		{"a.sql", "-- +goose Up\n-- Makes the table.\nSELECT 1;\n", ""},
	} {
		f := rules.File{Path: c.path, Content: []byte(c.content)}
		got := slices.Concat(rules.CheckLength(f), rules.CheckWords(f), rules.CheckHeader(f))
		if c.finding == "" && len(got) > 0 || c.finding != "" && (len(got) != 1 || !strings.Contains(got[0], c.finding)) {
			t.Errorf("%s %.40q: findings %q, want %q", c.path, c.content, got, c.finding)
		}
	}
}

func TestFilesReadsWhatIsCommitted(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{}
	for _, p := range []string{"a/b.go", "a/c.lua", ".ci/test", ".ci/lib/x.bash", "Makefile", "README.md",
		".git/config.md", "bin/x.go", "a/.cache/x.go", "a/picture.png", "loadtest/run"} {
		tree[p] = &fstest.MapFile{Data: []byte(p)}
	}
	got, err := rules.Files(tree)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range got {
		if string(f.Content) != f.Path {
			t.Errorf("%s holds %q", f.Path, f.Content)
		}
		names = append(names, f.Path)
	}
	if want := ".ci/lib/x.bash .ci/test Makefile README.md a/b.go a/c.lua"; strings.Join(names, " ") != want {
		t.Errorf("read %v, want %s", names, want)
	}
}
