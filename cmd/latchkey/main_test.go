package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// answered is what one command line did.
type answered struct {
	code           int
	stdout, stderr string
}

func runIn(t *testing.T, args ...string) answered {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, &stdout, &stderr)
	return answered{code, stdout.String(), stderr.String()}
}

// writeConfig writes a config file and returns its path. It is called latchkey.yaml.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "latchkey.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExitCodesOfWrongUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		args []string
		text string
	}{
		{"no command", nil, "latchkey: a command is needed"},
		{"unknown command", []string{"chekc"}, `latchkey: unknown command "chekc"`},
		{"unknown flag", []string{"check", "--confg", "x"}, "latchkey: unknown flag: --confg"},
		{"no config", []string{"check"}, `latchkey: required flag(s) "config" not set`},
		{"no config to migrate", []string{"migrate"}, `latchkey: required flag(s) "config" not set`},
		{"an argument too many", []string{"version", "x"}, "latchkey: unknown command"},
		{"a file that is not there", []string{"check", "--config", "none.yaml"}, "latchkey: none.yaml: cannot be read: no such file or directory"},
		{"and to migrate", []string{"migrate", "--config", "none.yaml"}, "latchkey: none.yaml: cannot be read: no such file or directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := runIn(t, test.args...)
			if got.code != 2 || !strings.Contains(got.stderr, test.text) || got.stdout != "" {
				t.Errorf("exit %d, stdout %q, stderr %q; want 2 and %q", got.code, got.stdout, got.stderr, test.text)
			}
		})
	}
}

func TestVersionAndCompletion(t *testing.T) {
	t.Parallel()
	if got := runIn(t, "version"); got.code != 0 || !strings.HasPrefix(got.stdout, "latchkey ") || strings.Count(got.stdout, "\n") != 1 {
		t.Errorf("version: %+v", got)
	}
	if got := runIn(t, "completion", "bash"); got.code != 0 || !strings.Contains(got.stdout, "__start_latchkey") {
		t.Errorf("completion bash: exit %d", got.code)
	}
	got := runIn(t, "--help")
	for _, command := range []string{"dev", "serve", "check", "migrate", "version", "completion"} {
		if !strings.Contains(got.stdout, "\n  "+command+" ") {
			t.Errorf("help does not list %s:\n%s", command, got.stdout)
		}
	}
}

func TestMigrateSQLite(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "latchkey.db")
	path := writeConfig(t, strings.NewReplacer("STORE", "{driver: sqlite, path: "+db+"}").Replace(auditedConfig))
	for range 2 { // again is no error
		got := runIn(t, "migrate", "--config", path)
		if got.code != 0 || got.stdout != "The tables of the sqlite store are up to date.\n" {
			t.Fatalf("migrate: %+v", got)
		}
	}
	if info, err := os.Stat(db); err != nil || info.Size() == 0 {
		t.Errorf("there is no database: %v", err)
	}
}

func TestMigrateReportsAStoreThatCannotBeReached(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "missing", "latchkey.db")
	path := writeConfig(t, strings.NewReplacer("STORE", "{driver: sqlite, path: "+db+"}").Replace(auditedConfig))
	if got := runIn(t, "migrate", "--config", path); got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, "latchkey: ") {
		t.Errorf("migrate: %+v", got)
	}
}

func TestMigrateDoesNotShowThePassword(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, strings.Replace(auditedConfig, "STORE", `{driver: postgres, dsn: "postgres://u:hunter2@127.0.0.1:1/latchkey?connect_timeout=5"}`, 1))
	got := runIn(t, "migrate", "--config", path)
	if got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, "latchkey: warning: "+path+":2: redis.mode: ") || strings.Contains(got.stderr, "hunter2") {
		t.Errorf("migrate: %+v", got)
	}
	for line := range strings.Lines(got.stderr) {
		if !strings.HasPrefix(line, "latchkey: ") || strings.HasPrefix(line, "latchkey: \t") {
			t.Errorf("a line that does not say who speaks: %q", line)
		}
	}
}
