package projector

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Group is the events that a projection applies in one transaction, and the way to write their effects. It is valid only during the call that
// it was passed to, and for one goroutine.
type Group struct {
	Events []journal.Event

	projection string
	pipeline   *pipeline
	loaded     any // what a Loader keeps from Load to Apply
}

// At says that the statements queued from now on belong to e, so that an error names the event that caused it. [Handlers] and SQL files do it by themselves.
func (g *Group) At(e journal.Event) {
	g.pipeline.at = origin{projection: g.projection, campaignID: e.CampaignID, seq: e.Seq, eventType: e.Type}
}

// Queue adds a statement to the group's pipeline. All that is queued runs in order in one round trip; an error fails the group. The result
// can be looked at with the returned query's Exec, Query or QueryRow.
func (g *Group) Queue(sql string, args ...any) *pgx.QueuedQuery {
	return g.pipeline.queue(sql, args...)
}

// Tx runs what is queued and returns the transaction, for statements whose results decide what comes next. Each costs a round trip.
func (g *Group) Tx(ctx context.Context) (Tx, error) {
	if err := g.pipeline.flush(ctx); err != nil {
		return Tx{}, err
	}
	return Tx{conn: g.pipeline.conn}, nil
}
