package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/latchkey-gateway/latchkey/gateway/config"
)

// fence is a fenced block of the README and the one right under it.
type fence struct {
	line      int
	lang      string
	text      string
	underLang string
	under     string
}

var fenced = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```\n(?:```([a-z]+)\n(.*?)^```\n)?")

func readme(t *testing.T) (text string, fences []fence) {
	t.Helper()
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	text = string(data)
	for _, m := range fenced.FindAllStringSubmatchIndex(text, -1) {
		part := func(i int) string {
			if m[2*i] < 0 {
				return ""
			}
			return text[m[2*i]:m[2*i+1]]
		}
		fences = append(fences, fence{1 + strings.Count(text[:m[0]], "\n"), part(1), part(2), part(3), part(4)})
	}
	return text, fences
}

// TestReadmeTour runs the commands of the README in one shell against latchkey dev, and
// looks for the lines shown under each, in their order.
func TestReadmeTour(t *testing.T) {
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the README's tour needs %s", tool)
		}
	}
	dev := startDev(t, t.TempDir())
	ports := strings.NewReplacer("http://127.0.0.1:8080", dev.agents, "http://127.0.0.1:9100", dev.demo,
		"go run ./cmd/latchkey", mainEnv+"=1 "+os.Args[0])
	t.Setenv("LATCHKEY_URL", dev.operators)
	shell := startShell(t)
	_, fences := readme(t)
	ran := 0
	for _, f := range fences {
		if f.lang != "sh" || f.underLang != "text" {
			continue
		}
		ran++
		got := shell.run(t, ports.Replace(f.text))
		rest := got
		for want := range strings.SplitSeq(strings.TrimSpace(f.under), "\n") {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Fatalf("README.md:%d: the commands do not print, in this place: %s\nthey print:\n%s", f.line, want, got)
			}
			rest = after
		}
	}
	if ran < 8 {
		t.Errorf("only %d steps of the tour were found", ran)
	}
}

// TestReadmeConfig: the config shown loads, and check has nothing unsafe to say of it.
func TestReadmeConfig(t *testing.T) {
	_, fences := readme(t)
	checked := 0
	for _, f := range fences {
		if f.lang != "yaml" {
			continue
		}
		checked++
		cfg, _, err := config.Parse("README.md", []byte(f.text), config.Options{})
		if err != nil {
			t.Errorf("README.md:%d: %v", f.line, err)
			continue
		}
		file := filepath.Join(t.TempDir(), "latchkey.yaml")
		if err := os.WriteFile(file, []byte(f.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if code := run(t.Context(), []string{"check", "--config", file}, &out, &out); code != 0 || len(cfg.Tools) == 0 {
			t.Errorf("README.md:%d: latchkey check exits with %d:\n%s", f.line, code, out.String())
		}
	}
	if checked == 0 {
		t.Error("the README shows no config")
	}
}

// TestReadmeLinks: every file that the README links to is there.
func TestReadmeLinks(t *testing.T) {
	text, _ := readme(t)
	links := regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(text, -1)
	if len(links) < 10 {
		t.Errorf("only %d links were found", len(links))
	}
	for _, link := range links {
		if _, err := os.Stat(filepath.Join("../..", link[1])); err != nil {
			t.Errorf("README.md links to %s: %v", link[1], err)
		}
	}
}

// TestDevKeepsItsData: killed and started again with the same --data, it still replays.
func TestDevKeepsItsData(t *testing.T) {
	data := t.TempDir()
	calls := map[string]string{
		"send_invoice_email": `{"run_id":"r","step_id":"1","args":{"invoice_id":"inv-1","to":"a@example.com"}}`,
		"add_note":           `{"run_id":"r","step_id":"1","args":{"id":"c-1","text":"called"}}`, // hot, but for the embedded Redis
	}
	call := func(d *devServer, tool string) reply {
		t.Helper()
		r, err := d.do(t.Context(), devAgentKey, "POST", "/v1/tools/"+tool+"/calls", calls[tool])
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := startDev(t, data)
	before := map[string]reply{}
	for tool := range calls {
		before[tool] = call(first, tool)
		before[tool].want(t, tool, 200, "completed", "never")
	}
	first.cmd.Process.Kill()
	<-first.ended
	again := startDev(t, data)
	for tool, was := range before {
		after := call(again, tool)
		after.want(t, tool+" after a restart", 200, "completed", "never")
		if !after.receipt.Replayed || after.receipt.Key != was.receipt.Key || !bytes.Equal(after.receipt.Outcome, was.receipt.Outcome) {
			t.Errorf("not the same receipt:\n%s\n%s", was.body, after.body)
		}
	}
}

// devServer is a latchkey dev process.
type devServer struct {
	*server
	demo string
}

var devAddresses = regexp.MustCompile(`(?m)^  (agents|operators|demo) +(http://\S+)`)

func startDev(t *testing.T, data string) *devServer {
	t.Helper()
	d := &devServer{server: &server{t: t, ended: make(chan struct{})}}
	d.cmd = exec.Command(os.Args[0], "dev", "--data", data, "--listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0", "--demo-listen", "127.0.0.1:0")
	d.cmd.Env = append(os.Environ(), mainEnv+"=1")
	d.cmd.Stderr = &d.log
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.run()
	ready := make(chan struct{})
	go func() {
		defer close(d.ended)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if m := devAddresses.FindStringSubmatch(lines.Text()); m != nil {
				switch m[1] {
				case "agents":
					d.agents = m[2]
				case "operators":
					d.operators = m[2]
				case "demo":
					d.demo = m[2]
				}
			}
			if strings.HasPrefix(lines.Text(), "Ctrl-C") {
				close(ready)
			}
		}
		d.cmd.Wait()
	}()
	select {
	case <-ready:
	case <-d.ended:
		t.Fatalf("latchkey dev ended:\n%s", d.log.String())
	case <-time.After(time.Minute):
		t.Fatal("latchkey dev does not start")
	}
	return d
}

// shell is one bash for a whole tour, so that what a step defines is there in the next.
type shell struct {
	in  *bufio.Writer
	out *bufio.Reader
}

func startShell(t *testing.T) *shell {
	t.Helper()
	cmd := exec.Command("bash", "-s")
	cmd.Dir = t.TempDir()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Process.Kill(); cmd.Wait() })
	return &shell{bufio.NewWriter(in), bufio.NewReader(out)}
}

const shellMark = "--- end of this step ---"

func (s *shell) run(t *testing.T, commands string) string {
	t.Helper()
	s.in.WriteString(commands + "\necho; echo '" + shellMark + "'\n")
	if err := s.in.Flush(); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if strings.HasPrefix(line, shellMark) {
			return b.String()
		}
		b.WriteString(line)
		if err != nil {
			t.Fatalf("the shell ended: %v\n%s", err, b.String())
		}
	}
}
