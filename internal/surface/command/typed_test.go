package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// TestWhatThePagesWantTypedIsAskedForHere covers every act for which a page asks to type a word.
// The command must ask too, and do nothing before.
func TestWhatThePagesWantTypedIsAskedForHere(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, fixtures, args, word string }{
		{"abort a rebuild", "failed.sql rebuilding.sql", "projection abort-rebuild scores", "scores"},
		{"roll back", "failed.sql", "projection rollback scores", "scores"},
		{"drain", "failed.sql", "workers drain w1", "w1"},
		{"resolve a pair", "failed.sql", "failed resolve --projection scores --campaign oak --reason r", "resolve 1"},
		{"resolve pairs", "failed.sql", "failed resolve --all --reason r", "resolve 4"},
		{
			"resolve a parked event", "published.sql", "publisher parked resolve --publisher archive --campaign elm --reason r",
			"resolve parked 1",
		},
		{"move a publisher", "published.sql", "publisher reset archive --topic orders --position 0", "archive"},
		{
			"send again", "published.sql", "publisher replay archive oak --topic orders --from 2", "archive",
		},
		{"repair gaps", "failed.sql paused.sql", "gaps repair search", "search"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url := database(t, strings.Fields(tt.fixtures)...)
			before := len(logged(t, url))
			if got := execute(t, url, false, tt.args); got.code != cli.ExitDeclined || !strings.Contains(got.err, "add --yes") {
				t.Errorf("without a terminal: exit code %d, %s", got.code, got.err)
			}
			typing := asked(t, url, tt.args, "no\n")
			if typing.code != cli.ExitDeclined || !strings.Contains(typing.err, "Type "+tt.word+" to continue") {
				t.Errorf("exit code %d, want that it asks for %q: %s", typing.code, tt.word, typing.err)
			}
			if n := len(logged(t, url)) - before; n != 0 {
				t.Errorf("%d acts are in the log", n)
			}
		})
	}
}

// asked runs one command line on a terminal and types the answers.
func asked(t *testing.T, url, args, typed string) result {
	t.Helper()
	var out, errs bytes.Buffer
	env := environment(url, false, &out, &errs)
	env.In, env.InTerminal = strings.NewReader(typed), true
	code := perform(t.Context(), env, stock(), fields(args))
	return result{code, out.String(), errs.String()}
}

func TestAVariableThatNothingReadsIsNamedOnStderr(t *testing.T) {
	t.Parallel()
	command := program(t, fresh(t), "lag")
	command.Env = append(command.Env, "TIDEMARK_DATABSE_URL=postgres://elsewhere/none")
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out),
		"tidemark: TIDEMARK_DATABSE_URL is set, but it is not a setting; the closest is TIDEMARK_DATABASE_URL\n") {
		t.Errorf("%v: %s", err, out)
	}
}
