package docstest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/freeport"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// eventually bounds the wait for a worker's effect on an output.
const eventually = 3 * time.Minute

// TestTutorial follows docs/tutorial/first-worker.md from an empty folder. The word after a
// snippet's language says what to do:
//
//	sh setup         prepares the module; tidemark is built from this checkout
//	sh clone         makes the module take Tidemark from a clone: here from this checkout
//	sh run           runs; with "text output" after it, until it prints that
//	sh worker, sh partner
//	                 runs until the next of its kind
//	text partner     what the partner prints in the end
//	go F, yaml F     is the file F
//	diff F           replaces lines of the file F
func TestTutorial(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(root, "docs/tutorial/first-worker.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for _, address := range []string{"127.0.0.1:8090", "127.0.0.1:9000"} {
		text = strings.ReplaceAll(text, address, freeAddress(t))
	}
	r := newReader(t)
	snippets := parse(t, "docs/tutorial/first-worker.md", text).snippets
	for i, s := range snippets {
		r.line = s.line
		lang, what, _ := strings.Cut(s.lang, " ")
		switch {
		case lang == "go" || lang == "yaml":
			r.write(what, s.text)
		case lang == "diff":
			r.change(what, s.text)
		case s.lang == "sh setup" || s.lang == "sh clone":
			r.setUp(s.text)
		case s.lang == "sh run":
			want := ""
			if i+1 < len(snippets) && snippets[i+1].lang == "text output" {
				want = snippets[i+1].text
			}
			r.run(s.text, want)
		case lang == "sh":
			r.start(what, s.text)
		case s.lang == "text partner":
			r.await(func() (string, bool) {
				out := r.programs["partner"].out.String()
				return out, same(sorted(out), sorted(s.text))
			})
		case s.lang == "text output":
		default:
			t.Errorf("docs/tutorial/first-worker.md:%d: nothing says what to do with a snippet of %q", s.line, s.lang)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := freeport.TCP(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// reader follows the tutorial with a folder and up to three terminals.
type reader struct {
	*testing.T
	dir, url string
	checkout string // the folder that the page clones
	env      []string
	programs map[string]*started
	line     int // line of the snippet
}

// started is a program that runs until it is stopped.
type started struct {
	cmd *exec.Cmd
	out *output
}

// output can be read while a program writes it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func newReader(t *testing.T) *reader {
	// The tutorial's own program appends, so its database's text is UTF8.
	url := pgtest.UTF8(pgtest.URL(t))
	r := &reader{T: t, dir: filepath.Join(t.TempDir(), "shop"), url: url, programs: map[string]*started{}}
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	r.checkout = checkout
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for name, path := range map[string]string{
		"tidemark": build(t, "cmd/tidemark"), "psql": psql(t).path,
	} {
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	r.env = append(os.Environ(),
		"PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "TIDEMARK_DATABASE_URL="+r.url, "PSQLRC=/dev/null",
		"TIDEMARK_HTTP_ADDR=off", "GOSUMDB=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -ldflags=-s")
	t.Cleanup(func() {
		for name := range r.programs {
			r.stop(name)
		}
	})
	return r
}

// setUp runs the lines that concern the module. The clone is this checkout at its own path: at
// another path Go would compile everything again.
func (r *reader) setUp(commands string) {
	for line := range strings.Lines(commands) {
		if strings.HasPrefix(line, "go mod ") {
			r.run(strings.ReplaceAll(line, "../tidemark", r.checkout), "")
		}
	}
}

func (r *reader) write(file, text string) {
	path := filepath.Join(r.dir, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
}

func (r *reader) change(file, diff string) {
	path := filepath.Join(r.dir, file)
	content, err := os.ReadFile(path)
	if err != nil {
		r.Fatal(err)
	}
	var before, after strings.Builder
	for line := range strings.Lines(diff) {
		switch line[0] {
		case '-':
			before.WriteString(line[1:])
		case '+':
			after.WriteString(line[1:])
		}
	}
	if strings.Count(string(content), before.String()) != 1 {
		r.Fatalf("docs/tutorial/first-worker.md:%d: %q is not there exactly once", r.line, before.String())
	}
	r.write(file, strings.Replace(string(content), before.String(), after.String(), 1))
}

// shell returns a command that runs the page's commands in the folder.
func (r *reader) shell(ctx context.Context, commands string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-ec", commands)
	cmd.Dir, cmd.Env = r.dir, r.env
	return cmd
}

func (r *reader) run(commands, want string) {
	r.await(func() (string, bool) {
		var out, errs bytes.Buffer
		cmd := r.shell(r.Context(), commands)
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil && want == "" {
			r.Fatalf("docs/tutorial/first-worker.md:%d: %v\n%s%s", r.line, err, out.String(), errs.String())
		}
		return out.String() + errs.String(), want == "" || same(out.String(), want)
	})
}

// sorted sorts lines. The partner receives each campaign in order, and the campaigns in any order.
func sorted(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func same(a, b string) bool { return trimmed(a) == trimmed(b) }

// await waits until a condition is met. On a timeout it prints what was shown.
func (r *reader) await(condition func() (shown string, met bool)) {
	r.Helper()
	deadline := time.After(eventually)
	for {
		shown, met := condition()
		if met {
			return
		}
		select {
		case <-deadline:
			for name, program := range r.programs {
				r.Logf("%s: %s", name, program.out)
			}
			r.Fatalf("docs/tutorial/first-worker.md:%d: after %v there is\n%s", r.line, eventually, shown)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// start runs all commands but the last to their end. The last one runs until start is called again
// for the same name.
func (r *reader) start(name, commands string) {
	r.stop(name)
	for line := range strings.Lines(commands) {
		if exported, ok := strings.CutPrefix(line, "export "); ok {
			r.env = append(r.env, strings.Fields(exported)...)
		}
	}
	lines := strings.Split(strings.TrimSpace(commands), "\n")
	last := len(lines) - 1
	r.run(strings.Join(lines[:last], "\n"), "")
	// With exec, signals reach the program.
	program := &started{cmd: r.shell(context.WithoutCancel(r.Context()), "exec "+lines[last]), out: &output{}}
	program.cmd.Stdout, program.cmd.Stderr = program.out, program.out
	if err := program.cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.programs[name] = program
	if name == "worker" {
		r.await(func() (string, bool) { out := program.out.String(); return out, strings.Contains(out, "worker starts") })
	}
}

// stop interrupts the program as Ctrl-C does.
func (r *reader) stop(name string) {
	program := r.programs[name]
	if program == nil {
		return
	}
	delete(r.programs, name)
	_ = program.cmd.Process.Signal(syscall.SIGINT)
	kill := time.AfterFunc(eventually, func() { _ = program.cmd.Process.Kill() })
	defer kill.Stop()
	if err := program.cmd.Wait(); err != nil && name == "worker" {
		r.Errorf("the worker ended with %v:\n%s", err, program.out)
	}
}
