package projector_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

const soldFile = `-- projection: sold
-- version: %d

CREATE TABLE sold (campaign_id text COLLATE "C" PRIMARY KEY, n bigint NOT NULL);

-- on: sold
%s`

func soldBy(t *testing.T, version int, handler string) projection.Projection {
	t.Helper()
	file, err := sqlfile.Load(fstest.MapFS{"sold.sql": {Data: fmt.Appendf(nil, soldFile, version, handler)}}, "sold.sql")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestStatementsThatChangeUnderOneVersionAreRefused(t *testing.T) {
	t.Parallel()
	const (
		ones     = `INSERT INTO sold AS c VALUES (event.campaign_id, 1) ON CONFLICT (campaign_id) DO UPDATE SET n = c.n + 1;`
		hundreds = `INSERT INTO sold AS c VALUES (event.campaign_id, 100) ON CONFLICT (campaign_id) DO UPDATE SET n = c.n + 1;`
		comments = `-- Counts what is sold.
			INSERT INTO sold AS c
			VALUES (event.campaign_id, 1) /* one each */ ON CONFLICT (campaign_id) DO UPDATE SET n=c.n+1`
	)
	pool := pgtest.New(t)
	reader := &status.Reader{Pool: pool}
	warned := func() string {
		t.Helper()
		s, err := reader.Read(t.Context(), status.SectionRebuilds)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range s.Problems() {
			if p.Where == "projection sold" && strings.Contains(p.What, "other statements") {
				return p.What + ": " + p.Do
			}
		}
		return ""
	}
	appendEvents(t, pool, "a", event.Event{Type: "sold"})
	drain(t, newProjector(t, pool, soldBy(t, 1, ones)))
	drain(t, newProjector(t, pool, soldBy(t, 1, comments)))
	if other := query[string](t, pool, `SELECT other FROM tidemark.projections`); other != "" {
		t.Errorf("comments and spaces count as another file: %s", other)
	}

	t.Run("status warns while a worker has the other file", func(t *testing.T) {
		running(t, newProjector(t, pool, soldBy(t, 1, hundreds)))
		tally.Eventually(t, "the worker lives", tally.Holds(pool, `SELECT count(*) = 1 FROM tidemark.workers`))
		if what := warned(); !strings.Contains(what, "(process ") || !strings.Contains(what, "both are version 1") ||
			!strings.Contains(what, "raise the version") {
			t.Errorf("status says %q", what)
		}
	})
	if what := warned(); what != "" {
		t.Errorf("the worker has stopped, and status says %q", what)
	}
	exec(t, pool, `UPDATE tidemark.projections SET other_since = other_since - interval '9 minutes'`)
	if err := newProjector(t, pool, soldBy(t, 1, hundreds)).Register(t.Context()); err != nil {
		t.Error(err)
	}
	exec(t, pool, `UPDATE tidemark.projections SET other_since = other_since - interval '2 minutes'`)
	err := newProjector(t, pool, soldBy(t, 1, hundreds)).Register(t.Context())
	if err == nil || !strings.Contains(err.Error(), "register projection sold") ||
		!strings.Contains(err.Error(), "raise the version") {
		t.Errorf("the other file is registered: %v", err)
	}
	for version, handler := range map[int]string{1: ones, 2: hundreds} {
		if err := newProjector(t, pool, soldBy(t, version, handler)).Register(t.Context()); err != nil {
			t.Errorf("version %d: %v", version, err)
		}
	}
	since := query[time.Time](t, pool, `SELECT other_since FROM tidemark.projections WHERE name = 'sold'`)
	if time.Since(since) < time.Minute {
		t.Error("the first file ends the time of the other")
	}
}
