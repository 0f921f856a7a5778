package projector_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func handling(name, tables string, types ...string) *projection.Handlers {
	h := &projection.Handlers{Name: name, Version: 1, Tables: tables, Types: []string{"moved"}}
	for _, t := range types {
		h.On = append(h.On, projection.Handle(event.Type[moved](t), func(context.Context, *projection.Group, event.Event, moved) error { return nil }))
	}
	return h
}

func TestCheckReportsAllFaultsTogether(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if err := newProjector(t, pool, ledger(), counters()).Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `DROP TABLE counters; ALTER TABLE ledger DROP COLUMN
		by`, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	types, err := catalogue.New(catalogue.EventType{Name: "seen", Intent: event.AuditOnly},
		catalogue.EventType{Name: "folded", Intent: event.ReplayOnly},
		catalogue.EventType{Name: "renamed", Aliases: []string{"before"}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := projector.New(projector.Config{Pool: pool, Catalogue: types, Projections: []projection.Projection{
		ledger(), counters(), handling("eager", `CREATE TABLE one (a int)`, "seen", "folded", "before"),
		handling("second", `CREATE TABLE one (b int);
			CREATE TABLE ledger (c int)`, "moved"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	err = p.Register(t.Context())
	if err == nil {
		t.Fatal("nothing was found")
	}
	for _, want := range []string{
		"projection eager declares the event type moved and has no handler for it: add one",
		"projection eager handles the event type seen, which is audit_only",
		"projection eager handles the event type folded, which is replay_only",
		"projection eager handles the event type before, which the catalogue calls renamed",
		"projections eager and second both claim the table tidemark_views.one: give",
		"projections ledger and second both claim the table tidemark_views.ledger: give",
		"the table tidemark_views.counters of projection counters is gone: restore it",
		"the table tidemark_views.ledger of projection ledger has no column by: add it",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
	if n := strings.Count(err.Error(), "\n"); n != 7 {
		t.Errorf("%d lines, want 8:\n%v", n+1, err)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'tidemark_check%'`); n != 0 {
		t.Errorf("%d scratch schemas are left", n)
	}
}

func TestCheckRefusesAServerThatCannotBeWrittenTo(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	cfg := pool.Config()
	cfg.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	readOnly, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	if err := newProjector(t, readOnly, ledger()).Register(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "default_transaction_read_only") {
		t.Errorf("got %v", err)
	}
}
