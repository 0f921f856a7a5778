package projector_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestRegistrationsAndRebuildsAreLoggedOnce has several workers, of which one does each.
func TestRegistrationsAndRebuildsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	log := &lockedBuffer{}
	logging := func(projections ...projection.Projection) *projector.Projector {
		return workerOf(t, pool, func(c *projector.Config) { c.Logger = slog.New(slog.NewJSONHandler(log, nil)) },
			projections...)
	}
	for range 2 {
		drain(t, logging(tripled(1)))
	}
	appendMoves(t, pool, "a", 1, 2)
	for range 2 {
		drain(t, logging(tripled(2))) // begins by itself
	}
	start(t, pool, rebuild.Options{}) // an operator's
	for range 2 {
		drain(t, logging(tripled(2)))
	}
	var got []string
	for line := range strings.Lines(log.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if slices.Contains([]any{"projection registered", "rebuild begins"}, record["msg"]) {
			by, _, _ := strings.Cut(fmt.Sprint(record["by"]), " ")
			got = append(got, fmt.Sprint(record["msg"], " ", record["projection"], " ", record["version"], " ",
				record["replaces"], " ", by))
		}
	}
	want := []string{
		"projection registered counters 1 <nil> worker", "rebuild begins counters 2 1 worker",
		"rebuild begins counters 2 2 " + ada.By,
	}
	if !slices.Equal(got, want) {
		t.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
