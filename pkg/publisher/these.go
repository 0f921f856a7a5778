package publisher

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// queryTheseParked locks rows by the primary key, in its order; those that somebody else is writing are passed by.
const queryTheseParked = `SELECT k.topic, k.publisher, k.campaign_id, k.seq, k.holds
	FROM (SELECT DISTINCT u.topic, u.publisher, u.campaign_id, u.seq FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS u (topic, publisher, campaign_id, seq) ORDER BY 1, 2, 3, 4) u
	CROSS JOIN LATERAL (
		SELECT k.* FROM tidemark.parked k
		WHERE k.topic = u.topic AND k.publisher = u.publisher AND k.campaign_id = u.campaign_id AND k.seq = u.seq AND k.status <> 'draining'
		FOR UPDATE SKIP LOCKED
	) k`

// ParkedKey names a parked event.
type ParkedKey struct {
	Key
	CampaignID string
	Seq        int64
}

// RetryThese has those of the events that are parked tried again at once, as [Retry] does, and answers which they are. Those that somebody else is changing at that moment are left alone.
func RetryThese(ctx context.Context, tx pgx.Tx, events []ParkedKey, act Act) (map[ParkedKey]bool, error) {
	return onThese(ctx, tx, events, act, ActRetried, queryRetry)
}

// ResolveThese leaves those of the events that are parked out for good, as [Resolve] does, and answers which they are.
func ResolveThese(ctx context.Context, tx pgx.Tx, events []ParkedKey, act Act) (map[ParkedKey]bool, error) {
	if act.Reason == "" {
		return nil, errors.New("a reason is missing: what is resolved is never published, the log should say why")
	}
	return onThese(ctx, tx, events, act, ActResolved, queryResolve, queryResolveFree)
}

func onThese(ctx context.Context, tx pgx.Tx, events []ParkedKey, act Act, name string, queries ...string) (map[ParkedKey]bool, error) {
	if act.By == "" {
		return nil, errNobody
	}
	var topics, publishers, campaigns []string
	var seqs []int64
	for _, e := range events {
		topics, publishers, campaigns, seqs = append(topics, e.Topic), append(publishers, e.Publisher), append(campaigns, e.CampaignID), append(seqs, e.Seq)
	}
	rows, err := tx.Query(ctx, queryTheseParked, topics, publishers, campaigns, seqs)
	if err != nil {
		return nil, fmt.Errorf("lock parked events: %w", err)
	}
	done := map[ParkedKey]bool{}
	batch := &pgx.Batch{}
	var e ParkedKey
	var holds bool
	if _, err := pgx.ForEachRow(rows, []any{&e.Topic, &e.Publisher, &e.CampaignID, &e.Seq, &holds}, func() error {
		done[e] = true
		for _, q := range queries {
			batch.Queue(q, e.Topic, e.Publisher, e.CampaignID, e.Seq, holds)
		}
		batch.Queue(queryRecord, act.logged(name, Key{e.Topic, e.Publisher}, e.CampaignID, e.Seq, nil)...)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("lock parked events: %w", err)
	}
	if len(done) == 0 {
		return done, nil
	}
	batch.Queue(queryNotify)
	return done, tx.SendBatch(ctx, batch).Close()
}
