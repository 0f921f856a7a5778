package projector_test

import (
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

func TestARefusalOfAnEventTriggerNamesItsFunction(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	tally.Exec(t, pool, `CREATE FUNCTION public.house_rules() RETURNS event_trigger LANGUAGE plpgsql
		AS $$ BEGIN RAISE EXCEPTION 'tables need a comment'; END $$`)
	tally.Exec(t, pool, `CREATE EVENT TRIGGER house ON ddl_command_end EXECUTE FUNCTION public.house_rules()`)
	p, err := projector.New(projector.Config{Pool: pool, Projections: []projection.Projection{tally.Totals()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Register(t.Context()); err == nil || !strings.Contains(err.Error(), "tables need a comment") ||
		!strings.Contains(err.Error(), "CONTEXT: PL/pgSQL function house_rules()") {
		t.Errorf("got %v", err)
	}
}
