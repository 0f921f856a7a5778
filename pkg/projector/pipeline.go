package projector

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// origin is what a queued statement is for.
type origin struct {
	projection string
	campaignID string
	seq        int64
	eventType  string
}

// pipeline collects statements for one connection and runs them in one round trip.
type pipeline struct {
	conn    *pgx.Conn
	batch   *pgx.Batch
	origins []origin
	at      origin // of the statements queued next
}

func newPipeline(conn *pgx.Conn) *pipeline { return &pipeline{conn: conn, batch: &pgx.Batch{}} }

func (p *pipeline) queue(sql string, args ...any) *pgx.QueuedQuery {
	p.sync()
	return p.batch.Queue(sql, args...)
}

// sync gives statements that were queued on the batch itself the origin of now.
func (p *pipeline) sync() {
	for len(p.origins) <= p.batch.Len() {
		p.origins = append(p.origins, p.at)
	}
}

// flush runs what is queued. It returns the first error, as an [*ApplyError] if the statement belongs to a projection.
func (p *pipeline) flush(ctx context.Context) error {
	batch, origins := p.batch, p.origins
	if batch.Len() == 0 {
		return nil
	}
	p.batch, p.origins = &pgx.Batch{}, origins[:0]
	results := p.conn.SendBatch(ctx, batch)
	for i, query := range batch.QueuedQueries {
		var err error
		if query.Fn != nil {
			err = query.Fn(results)
		} else {
			_, err = results.Exec()
		}
		if err != nil {
			_ = results.Close() // says the same
			if i < len(origins) {
				return origins[i].wrap(err)
			}
			return err
		}
	}
	return results.Close()
}

// exec runs one statement that belongs to no projection, after what is queued.
func (p *pipeline) exec(ctx context.Context, sql string, args ...any) error {
	p.at = origin{}
	p.queue(sql, args...)
	return p.flush(ctx)
}

func (o origin) wrap(err error) error {
	if o.projection == "" || err == nil {
		return err
	}
	return &ApplyError{Projection: o.projection, CampaignID: o.campaignID, Seq: o.seq, EventType: o.eventType, Err: err}
}

// ApplyError says which event a projection could not apply. It wraps the cause.
type ApplyError struct {
	Projection string
	CampaignID string
	Seq        int64
	EventType  string
	Err        error
}

func (e *ApplyError) Error() string {
	if e.Seq == 0 {
		return fmt.Sprintf("projection %s: %v", e.Projection, e.Err)
	}
	return fmt.Sprintf("projection %s: event %d (%s) of campaign %q: %v", e.Projection, e.Seq, e.EventType, e.CampaignID, e.Err)
}

func (e *ApplyError) Unwrap() error { return e.Err }
