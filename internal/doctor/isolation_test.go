package doctor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// A pool whose sessions are not prepared looks like one behind a pooler.
func TestAStricterDefaultIsolationIsNamedWhereSessionsDoNotChangeIt(t *testing.T) {
	t.Parallel()
	url := pgtest.With(pgtest.URL(t), "default_transaction_isolation", "serializable")
	for _, prepared := range []bool{false, true} {
		cfg, err := pgxpool.ParseConfig(pgtest.UTF8(url))
		if err != nil {
			t.Fatal(err)
		}
		if prepared {
			session.Prepare(cfg)
		}
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		findings, err := doctor.Run(t.Context(), pool, doctor.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := byCheck(t, findings)["recovery"]
		named := got.Status == doctor.Fail && strings.Contains(got.Detail, "SERIALIZABLE") &&
			strings.Contains(got.Remedy, "ALTER ROLE")
		if named == prepared {
			t.Errorf("prepared %t: doctor says %+v", prepared, got)
		}
		h := &projection.Handlers{
			Name: "p", Version: 1, Types: []string{"noted"},
			On: []projection.Handler{
				projection.Handle("noted", func(context.Context, *projection.Group, event.Event, struct{}) error { return nil }),
			},
		}
		p, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{h}})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(t.Context()); (err != nil && strings.Contains(err.Error(), "SERIALIZABLE")) == prepared ||
			prepared && err != nil {
			t.Errorf("prepared %t: the projector's check says %v", prepared, err)
		}
	}
}
