package command

import (
	"bufio"
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// watched starts the program, waits for some lines of output, and sends it the signal. It returns
// the lines and the error output.
func watched(t *testing.T, url string, lines int, args ...string) (out []string, errs string) {
	t.Helper()
	command := program(t, url, args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	pipe, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	scanner := bufio.NewScanner(pipe)
	for len(out) < lines && scanner.Scan() {
		out = append(out, scanner.Text())
	}
	if len(out) < lines {
		t.Fatalf("the program ended after %q and said %q", out, stderr.String())
	}
	if err := command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for scanner.Scan() {
		out = append(out, scanner.Text())
	}
	if err := command.Wait(); err != nil {
		t.Errorf("Ctrl-C ends it with %v: %s", err, stderr.String())
	}
	return out, stderr.String()
}

func TestAWatchGoesOnUntilItIsInterruptedAndEndsWell(t *testing.T) {
	t.Parallel()
	url := database(t, "behind.sql")
	t.Run("in lines that begin with the time", func(t *testing.T) {
		t.Parallel()
		// Three reads of two projections and the groups.
		out, errs := watched(t, url, 9, "lag", "--watch", "--interval", "100ms")
		for _, line := range out {
			if len(strings.Split(line, "\t")) != 6 || timeless(line) == line {
				t.Errorf("got the line %q", line)
			}
		}
		if errs != "" {
			t.Errorf("stderr is %q", errs)
		}
	})
	t.Run("in documents, one a line", func(t *testing.T) {
		t.Parallel()
		out, _ := watched(t, url, 3, "lag", "--watch", "--json", "--interval", "100ms")
		for _, line := range out {
			if len(decoded[[]any](t, line)) == 0 {
				t.Errorf("got %q", line)
			}
		}
	})
	t.Run("but not where there is no database", func(t *testing.T) {
		t.Parallel()
		requireRun(t, "postgres://nobody@127.0.0.1:1/none", "lag --watch", cli.ExitUnavailable, "database unavailable")
	})
}
