package projector_test

import (
	"testing"

	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestAProjectionOwnsNoTableThatAnotherProgramCreatesMeanwhile has another table appear in the schema
// while a projection creates its own. Owned tables are swapped and dropped with the projection.
func TestAProjectionOwnsNoTableThatAnotherProgramCreatesMeanwhile(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	mine := &projection.Handlers{Name: "mine", Version: 1, Tables: `
		CREATE TABLE mine (campaign_id text PRIMARY KEY);
		DO $$ BEGIN
			FOR i IN 1..1000 LOOP
				EXIT WHEN current_schema() <> 'tidemark_views' OR to_regclass('tidemark_views.other') IS NOT NULL;
				PERFORM pg_sleep(0.01);
			END LOOP;
		END $$`}
	registered := make(chan error, 1)
	p := workerOf(t, pool, nil, mine)
	go func() { registered <- p.Register(t.Context()) }()
	within(t, "its tables are created", func() bool {
		return query[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%tidemark_views.other%'
			AND wait_event = 'PgSleep') AND to_regnamespace('tidemark_views') IS NOT NULL`)
	})
	exec(t, pool, `CREATE TABLE tidemark_views.other (campaign_id text PRIMARY KEY)`)
	if err := <-registered; err != nil {
		t.Fatal(err)
	}
	expectText(t, pool, "tables", "mine", `SELECT array_to_string(table_names, ' ') FROM tidemark.projections`)
}
