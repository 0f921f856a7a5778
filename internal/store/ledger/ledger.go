// Package ledger keeps the places of named readers of the journal (tidemark.readers) for one
// process, its relay (tidemark.relays): it shares the readers out over all processes, and leases,
// moves and releases them. Each write of a place is fenced by owner and generation: a relay that has
// lost it changes nothing. A reader is a pair of a topic and a publisher, or a partition of a
// projection across campaigns. For pairs the package also writes refused events (tidemark.parked)
// and sent events that were lost (tidemark.ghosts).
package ledger

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Connections is the most connections of the pool that a relay uses at once.
const Connections = 6

// Channel notifies relays that pairs became free or an operator acted.
const Channel = "tidemark_relay"

// Ledger is safe for concurrent use.
type Ledger struct {
	pool  *pgxpool.Pool
	slots chan struct{} // a token for each connection in use
	owner string
	kind  Kind
	ttl   time.Duration // of leases
}

// Kind is what a reader does with the events.
type Kind string

// The kinds.
const (
	Publisher  Kind = "publisher"
	Projection Kind = "projection"
)

// New returns the ledger of the relay named owner, for readers of one kind.
func New(pool *pgxpool.Pool, owner string, kind Kind, ttl time.Duration) *Ledger {
	return &Ledger{pool: pool, slots: make(chan struct{}, Connections), owner: owner, kind: kind, ttl: ttl}
}

// Use runs do with a connection. do must not use the ledger, or it may deadlock.
func (l *Ledger) Use(ctx context.Context, do func(conn *pgxpool.Conn) error) error {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for one of the relay's %d connections: %w", Connections, ctx.Err())
	}
	defer func() { <-l.slots }()
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return do(conn)
}

func (l *Ledger) exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = l.Use(ctx, func(conn *pgxpool.Conn) error {
		tag, err = conn.Exec(ctx, sql, args...)
		return err
	})
	return tag, err
}

func (l *Ledger) send(ctx context.Context, batch *pgx.Batch) error {
	return l.Use(ctx, func(conn *pgxpool.Conn) error { return conn.SendBatch(ctx, batch).Close() })
}

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
	Instance string                               // of the database, see tidemark.instance
	Relays   map[string]map[publications.Key]bool // live relays, and the pairs they know
	Pairs    []Row
	Due      []Parked
	Erased   int64 // [feed.Erased]
}

// KeepHistory begins the present history of the journal if it has not begun, notes the writer floor, and
// returns the instance. [Ledger.Look] does the same.
func KeepHistory(ctx context.Context, db rows.Querier) (string, error) {
	return rows.One(ctx, db, pgx.RowTo[string], "keep the history of the journal", queryInstance)
}

// History returns the history of an instance: sent events are not lost while it stays.
func History(instance string) string {
	history, _, _ := strings.Cut(instance, "/")
	return history
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
	knows := []string{} // topic and publisher in turn
	for _, key := range q.Knows {
		knows = append(knows, key.Topic, key.Publisher)
	}
	batch.Queue(queryBeat, l.owner, q.Host, os.Getpid(), knows, q.Lives, q.Holding)
	var owner string
	var theirs []string
	batch.Queue(queryRelays).Query(rows.Visit([]any{&owner, &theirs}, func() {
		pairs := map[publications.Key]bool{}
		for pair := range slices.Chunk(theirs, 2) {
			pairs[publications.Key{Topic: pair[0], Publisher: pair[1]}] = true
		}
		seen.Relays[owner] = pairs
	}))
	batch.Queue(queryInstance).QueryRow(func(row pgx.Row) error { return row.Scan(&seen.Instance) })
	batch.Queue(queryPairs, l.ttl, l.kind).Query(rows.Into(&seen.Pairs, pgx.RowToStructByPos[Row]))
	// After the pairs: a rebuild that an erasure has begun is seen with the erasure.
	batch.Queue(feed.QueryErased).QueryRow(func(row pgx.Row) error { return row.Scan(&seen.Erased) })
	topics, publishers := columns(q.Mine)
	batch.Queue(queryDue, topics, publishers, q.Due).Query(rows.Into(&seen.Due, pgx.RowToStructByPos[Parked]))
	return seen, conn.SendBatch(ctx, batch).Close()
}

// Forget deletes the relay's row.
func (l *Ledger) Forget(ctx context.Context) error {
	batch := &pgx.Batch{}
	batch.Queue(queryForget, l.owner)
	publications.QueueNotify(batch)
	return l.send(ctx, batch)
}
