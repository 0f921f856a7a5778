package ledger

import (
	"context"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// Look is a relay's record of itself and its question to the tables, except the journal.
type Look struct {
	Host    string
	Knows   []publications.Key // its configured pairs
	Lives   time.Duration      // it counts as dead after this long without an update
	Holding int                // number of pairs

	Mine []publications.Key // pairs whose due campaigns are read
	Due  int                // most campaigns of a pair
}

// Seen is the result of [Ledger.Look].
type Seen struct {
	Instance string                               // of the database
	Relays   map[string]map[publications.Key]bool // live relays, and the pairs they know
	Pairs    []Row
	Due      []Parked
}

// Row is the part of a pair's row that all relays look at.
type Row struct {
	publications.Key
	Position   int64
	Active     bool
	Owner      string
	Generation int64
	Leased     bool
	Last       int64 // last position that the journal has assigned
}

// Look updates the relay's row and reads everything in one round trip.
func (l *Ledger) Look(ctx context.Context, conn *pgxpool.Conn, q Look) (*Seen, error) {
	seen := &Seen{Relays: map[string]map[publications.Key]bool{}}
	batch := &pgx.Batch{}
	var knows []string // topic and publisher in turn
	for _, key := range q.Knows {
		knows = append(knows, key.Topic, key.Publisher)
	}
	batch.Queue(queryBeat, l.owner, q.Host, os.Getpid(), knows, q.Lives, q.Holding)
	batch.Queue(queryRelays).Query(func(rows pgx.Rows) error {
		var owner string
		var knows []string
		_, err := pgx.ForEachRow(rows, []any{&owner, &knows}, func() error {
			pairs := map[publications.Key]bool{}
			for i := 0; i+1 < len(knows); i += 2 {
				pairs[publications.Key{Topic: knows[i], Publisher: knows[i+1]}] = true
			}
			seen.Relays[owner] = pairs
			return nil
		})
		return err
	})
	batch.Queue(queryInstance).QueryRow(func(row pgx.Row) error { return row.Scan(&seen.Instance) })
	batch.Queue(queryPairs, l.ttl).Query(func(rows pgx.Rows) (err error) {
		seen.Pairs, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Row])
		return err
	})
	topics, publishers := columns(q.Mine)
	batch.Queue(queryDue, topics, publishers, q.Due).Query(func(rows pgx.Rows) (err error) {
		seen.Due, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Parked])
		return err
	})
	return seen, conn.SendBatch(ctx, batch).Close()
}

// Forget deletes the relay's row.
func (l *Ledger) Forget(ctx context.Context) error {
	batch := &pgx.Batch{}
	batch.Queue(queryForget, l.owner)
	publications.QueueNudge(batch)
	return l.send(ctx, batch)
}
