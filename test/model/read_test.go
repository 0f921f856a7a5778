package model_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

const (
	readCampaigns = `SELECT l.campaign_id, l.checkpoint, ARRAY(SELECT o.seq FROM tidemark.outbox o
		WHERE o.consumer_group = l.consumer_group AND o.campaign_id = l.campaign_id ORDER BY 1),
			l.expires_at > clock_timestamp() AND l.owner <> 'paused', l.expires_at > clock_timestamp() AND l.owner = 'paused'
		FROM (SELECT DISTINCT campaign_id FROM tidemark.journal) j JOIN tidemark.leases l USING (campaign_id)
		UNION ALL
		SELECT o.campaign_id, 0, array_agg(o.seq ORDER BY o.seq), false, false FROM tidemark.outbox o
		WHERE NOT EXISTS (SELECT FROM tidemark.leases l WHERE l.campaign_id = o.campaign_id) GROUP BY 1`

	readRows = `SELECT d.projection, d.campaign_id, d.next_seq, d.status, d.attempt_count,
			CASE WHEN d.next_attempt_at = 'infinity' THEN 'never'
				WHEN d.next_attempt_at > clock_timestamp() + interval '1 minute' THEN 'later' ELSE 'due' END,
			d.reset, d.last_failed_at IS NOT NULL, coalesce(d.event_id::text, ''), coalesce(d.error_class, ''),
				coalesce(d.error_message, ''), coalesce(d.error_stack, '')
		FROM tidemark.failed d`

	readTrails = `SELECT 'ledger', campaign_id, string_agg(seq::text, ' ' ORDER BY n) FROM ledger GROUP BY 2
		UNION ALL SELECT 'sums', campaign_id, trail FROM sums
		UNION ALL SELECT 'pages', campaign_id, (SELECT string_agg(s, ' ' ORDER BY n)
			FROM jsonb_array_elements_text(doc -> 'trail') WITH ORDINALITY AS t (s, n)) FROM pages`

	readLog = `SELECT act, coalesce(projection, ''), coalesce(campaign_id, ''), coalesce(seq, 0), CASE
		WHEN act IN ('failed', 'dead') THEN attempt ELSE 0 END
		FROM tidemark.failure_log`

	readJournal = `SELECT campaign_id, string_agg(event_id::text, ' ' ORDER BY seq), count(*) = max(seq)
		FROM tidemark.journal GROUP BY 1`
)

// read reads the database's state and returns its internal contradictions.
func (w *world) read(ctx context.Context, pool *pgxpool.Pool) (*world, []string, error) {
	found, wrong := newWorld(), []string{}
	batch := &pgx.Batch{}
	batch.Queue(readCampaigns).Query(func(rows pgx.Rows) error {
		var id string
		var c campaign
		_, err := pgx.ForEachRow(rows, []any{&id, &c.checkpoint, &c.outbox, &c.held, &c.paused}, func() error {
			if len(c.outbox) == 0 {
				c.outbox = nil
			}
			found.campaigns[id] = c
			return nil
		})
		return err
	})
	batch.Queue(readRows).Query(func(rows pgx.Rows) error {
		var key failed.Key
		var r row
		var event, class, message, stack string
		_, err := pgx.ForEachRow(rows, []any{
			&key.Projection, &key.CampaignID, &r.next, &r.status, &r.attempts,
			&r.when, &r.reset, &r.failed, &event, &class, &message, &stack,
		}, func() error {
			found.rows[key] = r
			wrong = append(wrong, w.visible(key, r, event, class, message, stack)...)
			return nil
		})
		return err
	})
	batch.Queue(readTrails).Query(func(rows pgx.Rows) error {
		var key failed.Key
		var trail string
		_, err := pgx.ForEachRow(rows, []any{&key.Projection, &key.CampaignID, &trail}, func() error {
			for _, s := range strings.Fields(trail) {
				seq, err := strconv.ParseInt(s, 10, 64)
				if err != nil {
					return err
				}
				found.trails[key] = append(found.trails[key], seq)
			}
			return nil
		})
		return err
	})
	batch.Queue(readLog).Query(func(rows pgx.Rows) error {
		var act, projection, id string
		var seq int64
		var attempt int
		_, err := pgx.ForEachRow(rows, []any{&act, &projection, &id, &seq, &attempt}, func() error {
			found.log[line(act, projection, id, seq, attempt)]++
			return nil
		})
		return err
	})
	batch.Queue(readJournal).Query(func(rows pgx.Rows) error {
		var id, ids string
		var dense bool
		seen := 0
		_, err := pgx.ForEachRow(rows, []any{&id, &ids, &dense}, func() error {
			seen++
			if !dense || ids != w.journal(id) {
				wrong = append(wrong, fmt.Sprintf("the journal of %s has the events %s, not %s", id, ids, w.journal(id)))
			}
			return nil
		})
		if seen != len(w.events) {
			wrong = append(wrong, fmt.Sprintf("the journal has %d campaigns, not %d", seen, len(w.events)))
		}
		return err
	})
	err := pool.SendBatch(ctx, batch).Close()
	return found, wrong, err
}

// journal returns the ids of a campaign's events.
func (w *world) journal(id string) string {
	ids := make([]string, 0, len(w.events[id]))
	for _, e := range w.events[id] {
		ids = append(ids, e.id.String())
	}
	return strings.Join(ids, " ")
}

// visible returns what a row fails to say about why it is behind.
func (w *world) visible(key failed.Key, r row, event, class, message, stack string) (wrong []string) {
	if !r.failed {
		if r.status != failed.CatchingUp || event+class+message+stack != "" {
			return []string{fmt.Sprintf("%s is %s and has not failed, with the error %s %q of event %q", key, r.status, class,
				message, event)}
		}
		return nil
	}
	id, err := uuid.Parse(event)
	if err != nil || r.next > w.head(key.CampaignID) || id != w.events[key.CampaignID][r.next-1].id {
		wrong = append(wrong, fmt.Sprintf("%s is said to have failed at event %q, but stands before %d", key, event, r.next))
	}
	if message == "" || class != string(projection.ClassTransient) && class != string(projection.ClassPermanent) {
		wrong = append(wrong, fmt.Sprintf("%s failed with class %q and message %q", key, class, message))
	}
	if strings.Contains(message, "roof") != (stack != "") {
		wrong = append(wrong, fmt.Sprintf("%s failed with %q and the stack %q", key, message, stack))
	}
	return wrong
}
