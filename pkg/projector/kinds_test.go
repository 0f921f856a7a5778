package projector_test

import (
	"context"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
)

// kinds returns a projection of each kind, with tables named after name. Their rows show when an
// event was applied twice.
func kinds(t *testing.T, name string) []projection.Projection {
	t.Helper()
	return kindsOf(t, name, 1)
}

// kindsOf returns the projections of kinds in a version. Their rows depend on the version.
func kindsOf(t *testing.T, name string, version int) []projection.Projection {
	t.Helper()
	document := projection.Document[counter]{
		Name: "document_" + name, Version: version, Types: []string{"moved"},
		Key: func(e event.Event) (string, error) {
			m, err := event.Decode[moved](e)
			return fmt.Sprint(m.By % 3), err
		},
		Fold: func(c *counter, e event.Event) error {
			m, err := event.Decode[moved](e)
			if m.By == 7 {
				return event.Delete
			}
			c.Count++
			c.Sum = (2+version)*c.Sum + m.By // depends on the order of events
			return err
		},
	}
	// A parent and a child, so the order of deletion matters.
	handlers := &projection.Handlers{
		Name: "handlers_" + name, Version: version, Tables: fmt.Sprintf(`
		CREATE TABLE z_parent_%[1]s (campaign_id text PRIMARY KEY, count bigint NOT NULL);
		CREATE TABLE a_child_%[1]s (campaign_id text REFERENCES z_parent_%[1]s, number bigint, seq bigint NOT NULL,
			PRIMARY KEY (campaign_id, number))`, name),
		On: []projection.Handler{
			projection.Handle("moved", func(_ context.Context, g *projection.Group, e event.Event, _ moved) error {
				g.Queue(fmt.Sprintf(`INSERT INTO z_parent_%[1]s AS p VALUES ($1, 1) ON CONFLICT (campaign_id) DO UPDATE
			SET count = p.count + 1`, name), e.CampaignID)
				g.Queue(fmt.Sprintf(`INSERT INTO a_child_%[1]s SELECT $1, count, $2 FROM z_parent_%[1]s
			WHERE campaign_id = $1`, name), e.CampaignID, int64(version)*e.Seq)
				return nil
			}),
		},
	}
	file, err := sqlfile.Load(fstest.MapFS{"x.sql": {Data: fmt.Appendf(nil, `-- projection: file_%[1]s
-- version: %[2]d
CREATE TABLE file_%[1]s (campaign_id text PRIMARY KEY, sum numeric NOT NULL);
-- on: moved
INSERT INTO file_%[1]s (campaign_id, sum) VALUES (event.campaign_id, (event.payload->>'by')::bigint)
ON CONFLICT (campaign_id) DO UPDATE SET sum = ((2 + %[2]d) * file_%[1]s.sum + excluded.sum) %% 1000003;
`, name, version)}}, "x.sql")
	if err != nil {
		t.Fatal(err)
	}
	return []projection.Projection{document, handlers, file}
}

// kindsTables returns the tables that kinds(name) writes.
func kindsTables(name string) []string {
	return []string{"document_" + name, "z_parent_" + name, "a_child_" + name, "file_" + name}
}

// totals keeps a campaign's sum in a table without a campaign column.
type totals struct{}

func (totals) Spec() projection.Spec {
	return projection.Spec{Name: "totals", Version: 1, Types: []string{"moved"}, Tables: `CREATE TABLE totals (key text
		PRIMARY KEY, sum bigint NOT NULL)`}
}

func (totals) Apply(_ context.Context, g *projection.Group) error {
	for _, e := range g.Events {
		g.At(e)
		g.Queue(`INSERT INTO totals VALUES ('of ' || $1, ($2::jsonb->>'by')::bigint) ON CONFLICT (key) DO UPDATE
			SET sum = totals.sum + excluded.sum`, e.CampaignID, string(e.Payload))
	}
	return nil
}

func (totals) Reset(_ context.Context, g *projection.Group, campaignIDs []string) error {
	for _, id := range campaignIDs {
		g.Queue(`DELETE FROM totals WHERE key = 'of ' || $1`, id)
	}
	return nil
}
