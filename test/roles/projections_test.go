package roles_test

import (
	"os"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
)

func heroes(version int) projection.Projection {
	return projection.Document[int]{
		Name: "counted", Version: version, Types: []string{"hero_joined"},
		Fold: func(n *int, _ event.Event) error { *n++; return nil },
	}
}

// hashed calls a function of Postgres with an argument of another type, so a function of another
// role might fit better.
const hashed = `-- projection: hashed
-- version: 1
CREATE TABLE hashed (campaign_id text COLLATE "C" NOT NULL, seq bigint NOT NULL, hash bigint NOT NULL,
	PRIMARY KEY (campaign_id, seq));
-- on: hero_joined
INSERT INTO hashed (campaign_id, seq, hash) VALUES (event.campaign_id, event.seq,
	hashtextextended(event.campaign_id, 0));
`

func projections(t *testing.T, version int) []projection.Projection {
	t.Helper()
	files, err := sqlfile.LoadDir(os.DirFS("../../deploy/kubernetes/example/projections"))
	must(t, err)
	own, err := sqlfile.LoadDir(fstest.MapFS{"hashed.sql": {Data: []byte(hashed)}})
	must(t, err)
	return append(slices.Concat(files, own), heroes(version))
}

func projecting(t *testing.T, cfg projector.Config) *projector.Projector {
	t.Helper()
	p, err := projector.New(cfg)
	must(t, err)
	return p
}

func worker(t *testing.T, pool *pgxpool.Pool, version int) *projector.Projector {
	t.Helper()
	return projecting(t, projector.Config{Pool: pool, Projections: projections(t, version), GapRate: -1})
}
