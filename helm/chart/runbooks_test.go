package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	snippet = regexp.MustCompile("(?s)```sh\n(.*?)```|`(latchkey [^`]+)`")
	flagged = regexp.MustCompile(`(?:^|\s)(--[a-z-]+)`)
	quoted  = regexp.MustCompile(`"[^"]*"|'[^']*'`)
)

// Every command of the runbooks is one that the binary has, with flags that it takes.
func TestRunbookCommandsExist(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../runbooks/*.md")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d runbooks (%v)", len(files), err)
	}
	asked := map[string]string{} // help, by command
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, m := range snippet.FindAllStringSubmatch(string(data), -1) {
			for line := range strings.Lines(m[1] + m[2]) {
				line = quoted.ReplaceAllString(strings.TrimSpace(line), "QUOTED")
				if !strings.HasPrefix(line, "latchkey ") {
					continue
				}
				found++
				words := strings.Fields(line)[1:]
				end := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") || strings.ToLower(w) != w })
				if end < 0 {
					end = len(words)
				}
				command := strings.Join(words[:end], " ")
				help, ok := asked[command]
				if !ok {
					out, err := exec.CommandContext(t.Context(), binary(t), append(slices.Clone(words[:end]), "--help")...).CombinedOutput()
					if err != nil {
						t.Errorf("%s: latchkey %s --help: %v\n%s", f, command, err, out)
					}
					help = string(out)
					asked[command] = help
				}
				if !strings.Contains(help, "latchkey "+command) {
					t.Errorf("%s: there is no command latchkey %s", f, command)
				}
				for _, flag := range flagged.FindAllStringSubmatch(line, -1) {
					if !strings.Contains(help, flag[1]+" ") && !strings.Contains(help, flag[1]+"\n") {
						t.Errorf("%s: latchkey %s has no flag %s", f, command, flag[1])
					}
				}
			}
		}
		if found == 0 {
			t.Errorf("%s names no command of latchkey", f)
		}
	}
}
