package command

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

// ticks returns n lines of events without ids, numbered from first.
func ticks(first, n int) string {
	var text strings.Builder
	for i := first; i < first+n; i++ {
		fmt.Fprintf(&text, "{\"campaign_id\":\"clock\",\"type\":\"ticked\",\"payload\":{\"n\":%d}}\n", i)
	}
	return text.String()
}

func writeFile(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func requireRun(t *testing.T, url, args string, code int, message string) result {
	t.Helper()
	got := execute(t, url, false, args)
	if got.code != code || !strings.Contains(got.err, message) {
		t.Fatalf("%s: exit code %d, stderr %q: want %d and %q", args, got.code, got.err, code, message)
	}
	return got
}

func TestEventsImportedAndExported(t *testing.T) {
	t.Parallel()

	t.Run("are the same events in another database", func(t *testing.T) {
		t.Parallel()
		one, other := fresh(t), fresh(t)
		requireRun(t, one, "events import "+writeFile(t, "ticks", ticks(0, 2500)), cli.ExitOK,
			"2500 appended, 0 already there")
		first := requireRun(t, one, "events export", cli.ExitOK, "2500 events up to position")
		requireRun(t, other, "events import "+writeFile(t, "copy", first.out), cli.ExitOK, "2500 appended")
		if second := requireRun(t, other, "events export", cli.ExitOK, "2500 events"); second.out != first.out {
			t.Error("the copy's export differs from the original's")
		}
	})

	t.Run("are read from gzip, with the ids of the file itself", func(t *testing.T) {
		t.Parallel()
		url := fresh(t)
		plain := writeFile(t, "ticks", ticks(0, 3))
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write([]byte(ticks(0, 3))); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		requireRun(t, url, "events import "+writeFile(t, filepath.Base(plain)+".gz", packed.String()), cli.ExitOK, "3 appended")
		requireRun(t, url, "events import "+plain, cli.ExitOK, "0 appended, 3 already there")
		requireRun(t, url, "events import "+writeFile(t, "cut.gz", packed.String()[:packed.Len()-9]), cli.ExitFailed,
			"the gzip data is cut off")
	})

	t.Run("come from stdin", func(t *testing.T) {
		t.Parallel()
		var out, errs bytes.Buffer
		env := environment(fresh(t), false, &out, &errs)
		env.In = strings.NewReader(ticks(0, 3))
		if code := cli.Run(t.Context(), newRoot(env, stock()), env, []string{"events", "import", "-"}); code != cli.ExitOK ||
			!strings.Contains(errs.String(), "3 appended") {
			t.Errorf("exit code %d, stderr %q", code, errs.String())
		}
	})

	t.Run("are filtered", func(t *testing.T) {
		t.Parallel()
		url := fresh(t)
		text := ticks(0, 3) + "{\"campaign_id\":\"bell\",\"type\":\"rung\"}\n{\"campaign_id\":\"clock\",\"type\":\"wound\"}\n"
		requireRun(t, url, "events import "+writeFile(t, "mixed", text), cli.ExitOK, "5 appended")
		for args, want := range map[string]int{
			"--campaign clock": 4, "--type rung --type wound": 2, "--campaign clock --type ticked": 3, "--after 4": 1,
		} {
			got := requireRun(t, url, "events export "+args, cli.ExitOK, table.Count(int64(want), "event"))
			if n := strings.Count(got.out, "\n"); n != want {
				t.Errorf("%s writes %d lines, want %d", args, n, want)
			}
		}
	})
}

// squeezed returns compact JSON.
func squeezed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestABadLine(t *testing.T) {
	t.Parallel()
	const bad = `{"campaign_id":"clock","type":"ticked","payload":["not","an","object"]}`
	text := ticks(0, 5) + bad + "\n{\n" + ticks(5, 5)

	t.Run("stops the import and is named", func(t *testing.T) {
		t.Parallel()
		url := fresh(t)
		got := requireRun(t, url, "events import "+writeFile(t, "bad", text), cli.ExitFailed, "line 6 is refused: payload")
		if told := execute(t, url, false, "events import --json "+writeFile(t, "bad", text)); told.code != cli.ExitFailed ||
			squeezed(t, told.out) != `{"version":1,"appended":0,"duplicates":5}` {
			t.Errorf("as JSON it is %s, exit code %d", told.out, told.code)
		}
		if !strings.Contains(got.err, "5 appended") {
			t.Errorf("stderr is %q, want it to say that 5 events were appended", got.err)
		}
	})

	t.Run("may be of any length", func(t *testing.T) {
		t.Parallel()
		long := `{"campaign_id":"clock","type":"ticked","payload":{"p":"` + strings.Repeat("x", 9<<20) + `"}}`
		path := writeFile(t, "long", ticks(0, 2)+long+"\n"+ticks(2, 2))
		requireRun(t, fresh(t), "events import "+path, cli.ExitFailed, "line 3 is longer than 8388608 bytes")
	})

	t.Run("of the command is told before the database is asked", func(t *testing.T) {
		t.Parallel()
		const nowhere = "postgres://nobody@127.0.0.1:1/none"
		for args, message := range map[string]string{
			"events import":            "import what?",
			"events import a b":        "import what?",
			"events export --after -1": `--after: invalid cursor: "-1"`,
			"events export everything": `unexpected "everything"`,
			"events import -f now":     "unknown shorthand flag",
		} {
			requireRun(t, nowhere, args, cli.ExitUsage, message)
		}
		requireRun(t, nowhere, "events import /no/such/file", cli.ExitFailed, "/no/such/file")
		requireRun(t, nowhere, "events import "+t.TempDir(), cli.ExitFailed, "is a folder")
	})
}

// program runs the test binary as tidemark itself.
func program(t *testing.T, url string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), self, args...)
	command.Env = append(os.Environ(), asProgram+"=1", "TIDEMARK_DATABASE_URL="+url)
	return command
}

func TestAnImportThatWasKilledGoesOnWithoutDuplicates(t *testing.T) {
	t.Parallel()
	const events = 60_000
	url := fresh(t)
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	count := func() (n int) {
		if err := db.QueryRow(t.Context(), "SELECT count(*) FROM tidemark.journal").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	path := writeFile(t, "ticks", ticks(0, events))
	killed := program(t, url, "events", "import", path)
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- killed.Wait() }()
	for count() == 0 {
		select {
		case err := <-exited:
			t.Fatalf("the import ended before it was killed: %v", err)
		default:
		}
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-exited; err == nil {
		t.Fatal("the import was not killed")
	}
	if n := count(); n >= events {
		t.Fatalf("%d events were appended before the kill: it came too late to show anything", n)
	}
	requireRun(t, url, "events import "+path, cli.ExitOK, "already there")
	got := requireRun(t, url, "events export", cli.ExitOK, fmt.Sprintf("%d events", events))
	for i, line := range strings.Split(strings.TrimSuffix(got.out, "\n"), "\n") {
		if !strings.Contains(line, fmt.Sprintf(`"payload":{"n":%d}`, i)) {
			t.Fatalf("line %d of the export is %s", i+1, line)
		}
	}
}

func TestAnExportEndsQuietlyWhenNobodyReadsOn(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	requireRun(t, url, "events import "+writeFile(t, "ticks", ticks(0, 5000)), cli.ExitOK, "5000 appended")
	export := program(t, url, "events", "export")
	out, err := export.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	export.Stderr = &errs
	if err := export.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := export.Wait(); err != nil || errs.Len() > 0 {
		t.Errorf("the export ended with %v and said %q", err, errs.String())
	}
}

func TestAnImportThatIsInterruptedSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Close() }()
	interrupted := program(t, fresh(t), "events", "import", "-")
	interrupted.Stdin = reader
	var errs bytes.Buffer
	interrupted.Stderr = &errs
	if err := interrupted.Start(); err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	// More than a transaction and a pipe hold, so the program has begun to read.
	if _, err := writer.WriteString(ticks(0, 1500)); err != nil {
		t.Fatal(err)
	}
	if err := interrupted.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err = interrupted.Wait()
	if interrupted.ProcessState.ExitCode() != cli.ExitFailed || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("the import ended with %v and said %q", err, errs.String())
	}
}
