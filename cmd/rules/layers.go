package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// Module is the path that our own imports begin with.
const Module = "github.com/latchkey-gateway/latchkey"

// Package is what `go list` says of one package. Imports are those of its non-test files.
type Package struct {
	ImportPath string
	Dir        string
	Imports    []string
	GoFiles    []string
}

// List reads all packages of the module in dir.
func List(dir string) ([]Package, error) {
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Imports,GoFiles", "./...")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var list []Package
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p Package
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		list = append(list, p)
	}
}

// Layer says what a package may import of ours. Both are patterns as path.Match has them,
// relative to the module.
type Layer struct {
	Package string
	May     []string
}

// Layers is the table of DESIGN §8; the first row that matches counts. Imports go down
// only, siblings never import siblings, and only cmd names implementations.
var Layers = []Layer{
	{"intent", nil},
	{"tracing", nil},
	{"tracing/*", []string{"tracing"}},

	{"lock", []string{"intent"}},
	{"lock/*", []string{"intent", "lock"}},
	{"intentstore", []string{"intent"}},
	{"intentstore/group", nil}, // batching alone: it sees neither rows nor SQL
	{"intentstore/*", []string{"intent", "intentstore", "intentstore/group"}},
	{"downstream", []string{"intent", "tracing"}},
	{"downstream/*", []string{"intent", "tracing", "downstream"}},

	{"gateway/once", []string{"intent", "tracing", "lock", "intentstore", "downstream"}},
	{"gateway/sweep", []string{"intent", "tracing", "lock", "intentstore", "downstream", "gateway/once"}},
	{"gateway/config", []string{"intent", "downstream"}},
	{"gateway/auth", []string{"intent"}},
	{"gateway/*", []string{"intent", "tracing", "downstream", "intentstore", "gateway/once", "gateway/auth"}},
	{"gateway", []string{"intent", "tracing", "lock", "intentstore", "downstream",
		"gateway/once", "gateway/sweep", "gateway/config", "gateway/auth", "gateway/console"}},

	{"loadtest", []string{"loadtest/*"}}, // a black box: it knows the contract alone
	{"loadtest/*", []string{"loadtest/*"}},
	{"cmd/latchkey/demo", nil}, // a downstream knows nothing of who calls it
	{"cmd/rules", nil},
	{"cmd/*", []string{"*", "*/*", "cmd/*/*"}},
	{"cmd/*/*", []string{"*", "*/*", "cmd/*/*"}},
}

// CheckLayers finds imports of ours that the table does not allow, and packages that it
// does not know: a new package is a decision, made in the table.
func CheckLayers(table []Layer, packages []Package) []string {
	var findings []string
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, Module+"/")
		i := slices.IndexFunc(table, func(l Layer) bool { return matches(l.Package, name) })
		if i < 0 {
			findings = append(findings, name+" has no row in the table of layers")
			continue
		}
		for _, imported := range p.Imports {
			of, ours := strings.CutPrefix(imported, Module+"/")
			if ours && !slices.ContainsFunc(table[i].May, func(may string) bool { return matches(may, of) }) {
				findings = append(findings, name+" must not import "+of)
			}
		}
	}
	return findings
}

// Owner says which packages alone may import something: a dependency, or a part of the
// standard library that their neighbours know nothing of.
type Owner struct {
	Import string // this path and what is below it
	By     []string
}

// Owners keeps each dependency behind the package that wraps it.
var Owners = []Owner{
	{"github.com/gin-gonic/gin", []string{"gateway", "gateway/console", "gateway/mcp"}},
	{"github.com/redis/go-redis", []string{"lock/*", "cmd/*", "loadtest", "loadtest/*"}},
	{"github.com/alicebob/miniredis", []string{"lock/*", "cmd/*"}},
	{"github.com/jackc/pgx", []string{"intentstore/*", "gateway/config", "cmd/*", "loadtest", "loadtest/*"}}, // config refuses a DSN that pgx could not read
	{"github.com/pressly/goose", []string{"intentstore/*"}},
	{"modernc.org/sqlite", []string{"intentstore/sqlite"}},
	{"github.com/sony/gobreaker", []string{"downstream", "gateway/once"}},
	{"github.com/spf13/cobra", []string{"cmd/*", "loadtest", "loadtest/*"}},
	{"database/sql", []string{"intentstore/*", "cmd/*", "loadtest", "loadtest/*"}},
	{"net/http", []string{"downstream", "downstream/*", "gateway", "gateway/*", "tracing", "tracing/*", "cmd/*", "cmd/*/*", "loadtest", "loadtest/*"}},
	{"testing", []string{"*/*test", "cmd/rules", "loadtest", "loadtest/*"}},
}

// CheckOwners finds imports by packages that do not own them.
func CheckOwners(table []Owner, packages []Package) []string {
	var findings []string
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, Module+"/")
		for _, o := range table {
			i := slices.IndexFunc(p.Imports, func(imported string) bool {
				return imported == o.Import || strings.HasPrefix(imported, o.Import+"/")
			})
			if i >= 0 && !slices.ContainsFunc(o.By, func(by string) bool { return matches(by, name) }) {
				findings = append(findings, fmt.Sprintf("%s must not import %s: that is for %s", name, p.Imports[i], strings.Join(o.By, ", ")))
			}
		}
	}
	return findings
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	if err != nil {
		panic(fmt.Sprintf("rules: bad pattern %q", pattern)) // a constant of this package
	}
	return ok
}
