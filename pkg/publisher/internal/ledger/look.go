package ledger

import (
	"context"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// Look is what a relay asks when it looks at everything that is not the journal, and what it says of itself.
type Look struct {
	Host    string
	Knows   []publications.Key // the pairs of its configuration
	Lives   time.Duration      // it is counted as dead if nothing is heard of it for so long
	Holding int                // pairs

	Mine []publications.Key // whose campaigns are brought back when they are due
	Due  int                // so many of each, at most
}

// Seen is what a relay sees when it looks.
type Seen struct {
	Instance string                               // of the database
	Relays   map[string]map[publications.Key]bool // that live, and the pairs they know
	Pairs    []Row
	Due      []Parked
}

// Row is the row of a pair, as far as all relays look at it.
type Row struct {
	publications.Key
	Position   int64
	Active     bool
	Owner      string
	Generation int64
	Leased     bool
	Last       int64 // position that the journal has handed out
}

// Look says that the relay lives, and reads everything in one round trip.
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

// Forget takes the relay off the list.
func (l *Ledger) Forget(ctx context.Context) error {
	batch := &pgx.Batch{}
	batch.Queue(queryForget, l.owner)
	publications.QueueNudge(batch)
	return l.send(ctx, batch)
}
