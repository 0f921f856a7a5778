package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

func TestARemovalIsConfirmedByTheName(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	tests := []struct {
		name, args, typed string
		code              int
		says              string
		acts              int
	}{
		{
			"of a projection", "projection remove scores", "scores\n", cli.ExitOK,
			"This would remove projection scores with 2 failed campaigns and without its tables. Type scores to continue: ", 1,
		},
		{
			"and not by a yes", "projection remove scores --tables", "yes\n", cli.ExitDeclined,
			"and what is in public.scores, public.score_totals. Type scores", 0,
		},
		{
			"of a group", "group remove search", "search\n", cli.ExitOK,
			"This would remove group search with its work items, checkpoints and pauses. Type search to continue: ", 1,
		},
		{
			"and not by another", "group remove search", "default\n", cli.ExitDeclined,
			`declined: "default" was typed, not search`, 0,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fill(t, url, "failed.sql")
			var out, errs bytes.Buffer
			env := environment(url, false, &out, &errs)
			env.In, env.InTerminal = strings.NewReader(tt.typed), true
			if code := perform(t.Context(), env, stock(), fields(tt.args)); code != tt.code || !strings.Contains(errs.String(), tt.says) {
				t.Errorf("exit code %d, stderr %q: want %d and %q", code, errs.String(), tt.code, tt.says)
			}
			if did := len(actsIn(t, url)); did != tt.acts {
				t.Errorf("%d acts are logged, want %d", did, tt.acts)
			}
		})
	}
}

func TestAProjectionWhoseTableOthersNeedIsAConflict(t *testing.T) {
	t.Parallel()
	url := database(t, "failed.sql")
	change(t, url, "CREATE TABLE public.scores (n bigint); CREATE VIEW best AS SELECT max(n) FROM public.scores")
	got := execute(t, url, false, "projection remove scores --tables --yes")
	if got.code != cli.ExitConflict || !strings.Contains(got.err, "view best depends on table scores") ||
		!strings.Contains(got.err, "leave out its tables to keep them") {
		t.Errorf("exit code %d, %q", got.code, got.err)
	}
	if did := actsIn(t, url); len(did) > 0 {
		t.Errorf("the log has %q", did)
	}
}
