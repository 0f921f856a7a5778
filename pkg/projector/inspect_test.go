package projector_test

import (
	"reflect"
	"testing"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestProjectionsAreListedAsTheyAreRegistered(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if all, err := rebuild.Projections(t.Context(), pool); err != nil || len(all) != 0 {
		t.Errorf("got %+v, %v before there is one", all, err)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO tidemark.projections (name, consumer_group, version, schema_name,
		table_names, state)
		VALUES ('scores', 'g', 3, 'read', '{scores,totals}', 'joining'),
			('invites', 'h', 1, 'public', '{}', 'active')`); err != nil {
		t.Fatal(err)
	}
	all, err := rebuild.Projections(t.Context(), pool)
	if err != nil || len(all) != 2 || all[0].Name != "invites" || all[1].RegisteredAt.IsZero() {
		t.Fatalf("got %+v, %v", all, err)
	}
	want := rebuild.Registered{
		Name: "scores", Group: "g", Version: 3, Schema: "read",
		Tables: []string{"scores", "totals"}, State: "joining", Scope: "campaign", RegisteredAt: all[1].RegisteredAt,
	}
	if !reflect.DeepEqual(all[1], want) {
		t.Errorf("got %+v, want %+v", all[1], want)
	}
}
