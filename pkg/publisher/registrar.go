package publisher

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// registrar tells the database which pairs there are, and which relays.
type registrar struct {
	*base
	host     string
	knows    []string // the keys of routes, topic and publisher in turn
	registry bool     // all pairs have their row
}

func newRegistrar(b *base, host string) *registrar {
	r := &registrar{base: b, host: host}
	for key := range b.routes {
		r.knows = append(r.knows, key.Topic, key.Publisher)
	}
	return r
}

// register adds rows for pairs that have none, each where its publisher says that it starts.
func (r *registrar) register(ctx context.Context, conn *pgxpool.Conn) error {
	rows, err := conn.Query(ctx, queryRegistered)
	if err != nil {
		return fmt.Errorf("register pairs: %w", err)
	}
	known := map[Key]bool{}
	var key Key
	if _, err := pgx.ForEachRow(rows, []any{&key.Topic, &key.Publisher}, func() error {
		known[key] = true
		return nil
	}); err != nil {
		return fmt.Errorf("register pairs: %w", err)
	}
	var missing []Key
	var positions []int64
	starts := map[Start]int64{}
	for key, route := range r.routes {
		if known[key] {
			continue
		}
		start := route.to.Start
		position, resolved := starts[start]
		if !resolved {
			if position, err = start.resolve(ctx, conn); err != nil {
				return fmt.Errorf("register %s: %w", key, err)
			}
			starts[start] = position
		}
		missing, positions = append(missing, key), append(positions, position)
	}
	if len(missing) == 0 {
		return nil
	}
	topics, publishers := columns(missing)
	if _, err := conn.Exec(ctx, queryRegister, topics, publishers, positions); err != nil {
		return fmt.Errorf("register pairs: %w", err)
	}
	return nil
}

// beat says that this relay lives, and how many pairs it has.
func (r *registrar) beat(batch *pgx.Batch, pairs int) {
	batch.Queue(queryBeat, r.owner, r.host, os.Getpid(), r.knows, 4*r.tickEvery, pairs)
}

// resolve answers the position after which a new pair starts.
func (s Start) resolve(ctx context.Context, db journal.Querier) (int64, error) {
	switch s.kind {
	case "end":
		return journal.Floor(ctx, db)
	case "time":
		return journal.PositionAt(ctx, db, s.at)
	}
	return s.position, nil
}

// forget takes this relay off the list.
func (r *registrar) forget() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), 5*time.Second)
	defer cancel()
	batch := &pgx.Batch{}
	batch.Queue(queryForget, r.owner)
	batch.Queue(queryNotify)
	if err := r.db.send(ctx, batch); err != nil {
		r.cfg.Logger.WarnContext(ctx, "cannot write that this process has stopped", "error", err)
	}
}

func columns(keys []Key) (topics, publishers []string) {
	topics, publishers = make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		topics[i], publishers[i] = k.Topic, k.Publisher
	}
	return topics, publishers
}
