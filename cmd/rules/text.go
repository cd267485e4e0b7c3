package rules

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxLines is how long a Go file that is no test may be; longer ones want splitting.
const maxLines = 450

// File is a text file of the repository.
type File struct {
	Path    string // with slashes, relative to the root
	Content []byte
}

// extensions of the files that are read; scripts without one are found by their folder.
var extensions = []string{".go", ".lua", ".sql", ".md", ".yaml", ".yml", ".json", ".bash", ".sh", ".js", ".html", ".css", ".mod"}

// Files reads the repository's text files: what is committed, as far as the names tell.
func Files(root fs.FS) ([]File, error) {
	var files []File
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(d.Name(), ".") && p != "." && d.Name() != ".ci" && d.Name() != ".gitignore"
		if d.IsDir() {
			if hidden || d.Name() == "bin" || d.Name() == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		script := strings.HasPrefix(p, ".ci/") && path.Ext(p) == ""
		if hidden || !script && !slices.Contains(extensions, path.Ext(p)) && path.Base(p) != "Makefile" {
			return nil
		}
		b, err := fs.ReadFile(root, p)
		files = append(files, File{p, b})
		return err
	})
	return files, err
}

// CheckLength finds Go files over maxLines that are no tests.
func CheckLength(f File) []string {
	n := bytes.Count(f.Content, []byte("\n"))
	if path.Ext(f.Path) != ".go" || strings.HasSuffix(f.Path, "_test.go") || n <= maxLines {
		return nil
	}
	return []string{fmt.Sprintf("%s has %d lines; over %d it wants splitting", f.Path, n, maxLines)}
}

// unfinished are words that mark work left for later, and traces of somebody's machine or
// editor. The strings are in two halves so that this file is clean itself.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK|W` + `IP)\b` +
	`|(?i:work in pro` + `gress|lorem ip` + `sum|not yet imple` + `mented)` +
	`|/wo` + `rk/|/ho` + `me/[a-z]|/tmp/br` + `ief` +
	`|(?m:^(<<<<` + `<<<|>>>>` + `>>>)( |$))`)

// CheckWords finds what has no place in a committed file.
func CheckWords(f File) []string {
	var findings []string
	for _, at := range unfinished.FindAllIndex(f.Content, -1) {
		line := 1 + bytes.Count(f.Content[:at[0]], []byte("\n"))
		findings = append(findings, fmt.Sprintf("%s:%d: %q does not belong in a committed file", f.Path, line, f.Content[at[0]:at[1]]))
	}
	return findings
}

// CheckHeader finds Lua and SQL files that do not begin with a comment; a Lua script's must
// also list the KEYS and ARGV that the script uses. goose's annotations are no comment.
func CheckHeader(f File) []string {
	ext := path.Ext(f.Path)
	if ext != ".lua" && ext != ".sql" {
		return nil
	}
	var header strings.Builder
	for line := range strings.Lines(string(f.Content)) {
		text, comment := strings.CutPrefix(strings.TrimSpace(line), "--")
		if !comment && text != "" {
			break
		}
		if !strings.HasPrefix(strings.TrimSpace(text), "+goose") {
			header.WriteString(text + "\n")
		}
	}
	if strings.TrimSpace(header.String()) == "" {
		return []string{f.Path + " must begin with a comment that says what it is for"}
	}
	if ext == ".lua" {
		for _, word := range []string{"KEYS", "ARGV"} {
			if strings.Contains(string(f.Content), word) && !strings.Contains(header.String(), word) {
				return []string{f.Path + ": its header must list " + word}
			}
		}
	}
	return nil
}
