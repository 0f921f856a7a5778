package feed_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

func TestRowSecurityOnTablesOfTidemarkIsRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{tally.Totals()}})
	if err != nil {
		t.Fatal(err)
	}
	refused := func(err error) bool {
		t.Helper()
		on, is := errors.AsType[*feed.RowSecurityError](err)
		if err != nil && (!is || on.Tables[0] != "tidemark.journal") {
			t.Errorf("got %v", err)
		}
		return is
	}
	for _, c := range []struct {
		sql           string
		reader, owner bool
		finding       doctor.Status
	}{
		{"SELECT", false, false, doctor.OK},
		{"ALTER TABLE tidemark.journal ENABLE ROW LEVEL SECURITY", true, false, doctor.Fail},
		{"ALTER TABLE tidemark.journal FORCE ROW LEVEL SECURITY", true, true, doctor.Fail},
		{
			"ALTER TABLE tidemark.journal DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY", false, false,
			doctor.OK,
		},
	} {
		tally.Exec(t, pool, c.sql)
		if got := refused(p.Check(t.Context())); got != c.owner {
			t.Errorf("after %s the projector is refused: %t", c.sql, got)
		}
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "SET LOCAL ROLE pg_read_all_data"); err != nil {
				return err
			}
			return feed.CheckRowSecurity(t.Context(), tx)
		})
		if got := refused(err); got != c.reader {
			t.Errorf("after %s a reader is refused: %t", c.sql, got)
		}
		findings, err := doctor.Run(t.Context(), pool, doctor.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if f.Check == "row-security" && f.Status != c.finding {
				t.Errorf("after %s doctor says %+v", c.sql, f)
			}
		}
	}
}
