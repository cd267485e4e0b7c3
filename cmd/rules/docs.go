package rules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// Parse reads files with their comments, under the names given.
func Parse(dir string, names []string) (*token.FileSet, []*ast.File, error) {
	fset := token.NewFileSet()
	files := make([]*ast.File, len(names))
	for i, name := range names {
		var err error
		if files[i], err = parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.ParseComments); err != nil {
			return nil, nil, err
		}
	}
	return fset, files, nil
}

// vague are package names that say nothing of what the package provides.
var vague = []string{"util", "utils", "common", "helper", "helpers", "model", "models", "misc", "base", "shared", "types"}

// CheckDocs finds a package without a doc comment that begins "Package x" (a command's:
// "Command x"), with more than one, or with a vague name, and exported identifiers without
// a comment.
func CheckDocs(name string, fset *token.FileSet, files []*ast.File) []string {
	if len(files) == 0 {
		return nil // tests alone
	}
	var findings []string
	begin := "Package " + files[0].Name.Name + " "
	if files[0].Name.Name == "main" {
		begin = "Command " + filepath.Base(name) + " "
	}
	docs := 0
	for _, f := range files {
		if f.Doc == nil {
			continue
		}
		docs++
		if !strings.HasPrefix(f.Doc.Text(), begin) {
			findings = append(findings, fmt.Sprintf("%s: the package's doc comment must begin %q", fset.Position(f.Doc.Pos()), begin))
		}
	}
	if docs != 1 {
		findings = append(findings, fmt.Sprintf("%s has %d package doc comments, want 1", name, docs))
	}
	if slices.Contains(vague, files[0].Name.Name) {
		findings = append(findings, name+": a package is named after what it provides")
	}
	if files[0].Name.Name == "main" {
		return findings // nobody imports it
	}
	for _, f := range files {
		for _, d := range f.Decls {
			for _, id := range undocumented(d) {
				findings = append(findings, fmt.Sprintf("%s: %s is exported and has no comment", fset.Position(id.Pos()), id.Name))
			}
		}
	}
	return findings
}

// plain are methods whose meaning an interface of the standard library gives.
var plain = []string{"Error", "Unwrap", "Is", "ServeHTTP", "Len", "Less", "Swap"}

func undocumented(d ast.Decl) []*ast.Ident {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc != nil || !d.Name.IsExported() || d.Recv != nil && (!exportedReceiver(d.Recv) || slices.Contains(plain, d.Name.Name)) {
			return nil
		}
		return []*ast.Ident{d.Name}
	case *ast.GenDecl:
		if enumeration(d) {
			return nil
		}
		var ids []*ast.Ident
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				// A group's comment cannot say what each of its types is.
				if s.Name.IsExported() && s.Doc == nil && s.Comment == nil && (d.Lparen.IsValid() || d.Doc == nil) {
					ids = append(ids, s.Name)
				}
			case *ast.ValueSpec:
				if d.Doc != nil || s.Doc != nil || s.Comment != nil {
					continue
				}
				ids = append(ids, slices.DeleteFunc(slices.Clone(s.Names), func(id *ast.Ident) bool { return !id.IsExported() })...)
			}
		}
		return ids
	}
	return nil
}

// enumeration: constants of a named type, whose own comment says what they are.
func enumeration(d *ast.GenDecl) bool {
	if d.Tok != token.CONST || !d.Lparen.IsValid() || len(d.Specs) == 0 {
		return false
	}
	first, ok := d.Specs[0].(*ast.ValueSpec)
	if !ok {
		return false
	}
	t, ok := first.Type.(*ast.Ident)
	return ok && t.IsExported()
}

func exportedReceiver(recv *ast.FieldList) bool {
	t := recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}
