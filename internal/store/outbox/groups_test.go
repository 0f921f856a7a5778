package outbox_test

import (
	"testing"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestGroupsAreListedByName(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if groups, err := outbox.Groups(t.Context(), pool); err != nil || len(groups) != 0 {
		t.Errorf("got %+v, %v before there is one", groups, err)
	}
	for _, name := range []string{"search", "default"} {
		if err := outbox.Register(t.Context(), pool, name); err != nil {
			t.Fatal(err)
		}
	}
	groups, err := outbox.Groups(t.Context(), pool)
	if err != nil || len(groups) != 2 || groups[0].Name != "default" || groups[1].Name != "search" ||
		groups[0].State != "ready" || groups[0].RegisteredAt.IsZero() {
		t.Errorf("got %+v, %v", groups, err)
	}
}
