package failed_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestReplacedTablesAreLeftOutUnlessNamed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `INSERT INTO tidemark.consumer_groups (name, state) VALUES ('g', 'ready')`)
	live, old := fail(t, pool, failed.Failed, "p", "c", 5), fail(t, pool, failed.Dead, "p~previous", "c", 5)
	fail(t, pool, failed.Failed, "p~previous", "d", 5)
	before := standing(t, pool, old)

	if err := in(t, pool, func(ctx context.Context, tx pgx.Tx) error {
		return failed.Requeue(ctx, tx, old, operator())
	}); !errors.Is(err, failed.ErrReplaced) {
		t.Errorf("replaced tables are requeued: %v", err)
	}
	if keys := requeue(t, pool, failed.Filter{Group: "g"}); len(keys) != 1 {
		t.Errorf("requeued %q", keys)
	}
	if err := in(t, pool, func(ctx context.Context, tx pgx.Tx) error {
		keys, err := failed.RequeueSeq(ctx, tx, "", "c", 5, operator())
		if len(keys) != 1 || keys[0] != live {
			t.Errorf("requeued %v", keys)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if now := standing(t, pool, old); now != before {
		t.Errorf("%s, was %s", now, before)
	}

	for projection, want := range map[string]int64{"": 1, "p": 1, "p~previous": 2} {
		f := failed.Filter{Projection: projection}
		n, err := failed.Count(t.Context(), pool, f)
		list, also := failed.List(t.Context(), pool, f)
		found, _, again := failed.Search(t.Context(), pool, f, 100)
		if err := errors.Join(err, also, again); err != nil || n != want || len(list) != int(want) || len(found) != int(want) {
			t.Errorf("of %q %d are counted, %d listed, %d found, want %d: %v", projection, n, len(list), len(found), want, err)
		}
		causes, err := failed.Causes(t.Context(), pool, failed.CauseFilter{Projection: projection, Limit: 1})
		if err != nil || len(causes) != 1 || projection != "" && causes[0].Projection != projection {
			t.Errorf("of %q the causes are %v, %v", projection, causes, err)
		}
	}
	groups, err := outbox.Report(t.Context(), pool)
	if err != nil || len(groups) != 1 || groups[0].Failed != 1 || groups[0].Dead != 0 {
		t.Errorf("the queue has %+v, %v", groups, err)
	}
	s, err := (&status.Reader{Pool: pool}).Read(t.Context(), status.SectionFailed)
	if err != nil || len(s.Failed) != 1 || s.Failed[0].Projection != "p" {
		t.Errorf("status has %+v, %v", s.Failed, err)
	}
}
