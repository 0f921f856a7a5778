package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

func columns(pairs []publications.Key) (topics, publishers []string) {
	topics, publishers = make([]string, len(pairs)), make([]string, len(pairs))
	for i, p := range pairs {
		topics[i], publishers[i] = p.Topic, p.Publisher
	}
	return topics, publishers
}

// Registered returns the pairs that have a row.
func Registered(ctx context.Context, conn *pgxpool.Conn) (map[publications.Key]bool, error) {
	var p publications.Key
	pairs := map[publications.Key]bool{}
	err := rows.Each(ctx, conn, []any{&p.Topic, &p.Publisher}, func() { pairs[p] = true }, "", queryRegistered)
	return pairs, err
}

// Register adds rows for readers that have none, each at its position.
func Register(ctx context.Context, db rows.Execer, kind Kind, readers []publications.Key, positions []int64) error {
	topics, publishers := columns(readers)
	return rows.Do(ctx, db, "", queryRegister, topics, publishers, positions, kind)
}

// SetReacts makes a new process's places react to events after a position; nil: after the last one.
func SetReacts(ctx context.Context, db rows.Execer, process string, after *int64) error {
	return rows.Do(ctx, db, "", querySetReacts, process, after)
}

// Reacts returns the position after which a process reacts; nil: it does not.
func (l *Ledger) Reacts(ctx context.Context, place publications.Key) (after *int64, err error) {
	err = l.Use(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, queryReacts, place.Topic, place.Publisher).Scan(&after)
	})
	return after, err
}

// Claimed is the row of a pair that was claimed.
type Claimed struct {
	publications.Key
	Generation, Position int64
	Errors               int
	Wait                 time.Duration
	Deaths               int      // processes that died holding the place, if the last one did
	Marked               int64    // position of the event that it was trying alone; 0: none
	Held                 []string `db:"-"` // campaigns held back
}

// Claim leases those of the pairs that are free and returns them.
func (l *Ledger) Claim(ctx context.Context, conn *pgxpool.Conn, pairs []publications.Key) ([]Claimed, error) {
	topics, publishers := columns(pairs)
	claimed, err := rows.All(ctx, conn, pgx.RowToStructByPos[Claimed], "claim pairs",
		queryClaim, l.owner, topics, publishers, l.ttl)
	if err != nil {
		return nil, err
	}
	held := map[publications.Key][]string{}
	var p publications.Key
	var campaign string
	if err = rows.Each(ctx, conn, []any{&p.Topic, &p.Publisher, &campaign}, func() {
		held[p] = append(held[p], campaign)
	}, "read parked campaigns", queryHeld, topics, publishers); err != nil {
		return nil, err
	}
	for i := range claimed {
		claimed[i].Held = held[claimed[i].Key]
	}
	return claimed, nil
}

// RefuseAhead fails a pair whose position the journal has never assigned. It reports whether it did.
func RefuseAhead(ctx context.Context, conn *pgxpool.Conn, pair publications.Key, why string) (bool, error) {
	tag, err := conn.Exec(ctx, queryAhead, pair.Topic, pair.Publisher, why)
	return tag.RowsAffected() > 0, err
}

// Move is the progress of a pair.
type Move struct {
	publications.Key
	Generation int64
	To         int64
	Published  int64 // events since the previous move
	Release    bool  // release the pair
}

// Move writes positions and renews leases, if the database is still the instance that the caller
// read. It returns the pairs that are still the relay's.
func (l *Ledger) Move(ctx context.Context, instance string, moves []Move) (map[publications.Key]bool, error) {
	var p publications.Key
	kept, batch := map[publications.Key]bool{}, &pgx.Batch{}
	l.queueMoves(batch, instance, moves).Query(rows.Visit([]any{&p.Topic, &p.Publisher}, func() { kept[p] = true }))
	if slices.ContainsFunc(moves, func(m Move) bool { return m.Release }) {
		publications.QueueNotify(batch)
	}
	return kept, l.send(ctx, batch)
}

func (l *Ledger) queueMoves(batch *pgx.Batch, instance string, moves []Move) *pgx.QueuedQuery {
	topics, publishers, release := make([]string, len(moves)), make([]string, len(moves)), make([]bool, len(moves))
	numbers := make([]int64, 3*len(moves))
	generations, positions, published := numbers[:len(moves)], numbers[len(moves):2*len(moves)], numbers[2*len(moves):]
	for i, m := range moves {
		topics[i], publishers[i], release[i] = m.Topic, m.Publisher, m.Release
		generations[i], positions[i], published[i] = m.Generation, m.To, m.Published
	}
	return batch.Queue(queryMove, l.owner, topics, publishers, generations, positions, published, release, l.ttl, instance)
}

// Applied is the progress of a partition of a projection across campaigns, in the transaction that
// writes its rows.
type Applied struct {
	publications.Key
	Generation int64
	Instance   string // of the database that the events were read from
	From, To   int64  // positions
	Events     int64  // of the journal since the last move, also those that the projection does not want
	Hash       int64  // XOR of the hashes of their ids
}

// QueueApplied queues the fence: the place moves and its lease is renewed, or the transaction fails
// with an error for [Error], because another process holds the place or has moved it, or the database is
// another instance. The caller itself has moved it if its last COMMIT got no answer and has happened.
func (l *Ledger) QueueApplied(batch *pgx.Batch, m Applied) {
	batch.Queue(queryAdvance, l.owner, m.Topic, m.Publisher, m.Generation, m.From, m.To, m.Events, m.Hash, l.ttl,
		m.Instance)
}

// Apply moves a place without rows: there was nothing that the projection wants.
func (l *Ledger) Apply(ctx context.Context, m Applied) error {
	batch := &pgx.Batch{}
	l.QueueApplied(batch, m)
	return Error(l.send(ctx, batch))
}

// Mark notes, before an event is tried alone, its position: if the process dies, the event is
// suspect. The next [Ledger.QueueApplied] takes the mark away. A negative position says that the event
// is not being tried now.
func (l *Ledger) Mark(
	ctx context.Context, place publications.Key, generation int64, instance string, position int64,
) error {
	tag, err := l.exec(ctx, queryMark, place.Topic, place.Publisher, l.owner, generation, position, instance)
	if err == nil && tag.RowsAffected() == 0 {
		return ErrLost
	}
	return err
}

// Error returns err as [ErrLost] if it is the error of the fence.
func Error(err error) error {
	if feed.SQLState(err) == stateLost {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}

// stateLost is the SQLSTATE of tidemark.advance_reader.
const stateLost = "TM010"

// Fail records a pair's consecutive failures and the wait. 0 failures mean that the sink recovered.
func (l *Ledger) Fail(
	ctx context.Context, pair publications.Key, generation int64, failures int, why string, wait time.Duration,
) error {
	_, err := l.exec(ctx, queryFail, pair.Topic, pair.Publisher, l.owner, generation, failures, why, wait)
	return err
}

// Halt writes a pair's position and stops the pair.
func (l *Ledger) Halt(ctx context.Context, instance string, move Move, status, why string) error {
	batch := &pgx.Batch{}
	l.queueMoves(batch, instance, []Move{move})
	batch.Queue(queryHalt, move.Topic, move.Publisher, l.owner, move.Generation, status, why)
	return l.send(ctx, batch)
}

// ErrLost is returned for a place that another relay holds, and for one that was claimed in another
// instance of the database.
var ErrLost = errors.New("another process has taken over the place, or the database was replaced")

// Fenced runs write in a transaction that locks the pair's row and checks that the relay holds it.
func (l *Ledger) Fenced(
	ctx context.Context, pair publications.Key, generation int64, instance string, write func(tx pgx.Tx) error,
) error {
	return l.Use(ctx, func(conn *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, queryFence, pair.Topic, pair.Publisher, l.owner, generation, instance)
			if err != nil {
				return err
			}
			if tag.RowsAffected() == 0 {
				return ErrLost
			}
			return write(tx)
		})
	})
}

// Assign assigns each active pair to a relay. All relays compute the same result from the same
// rows. A pair moves only if that evens out the numbers, and only to a relay that knows it.
func Assign(relays map[string]map[publications.Key]bool, pairs []Row) map[publications.Key]string {
	seats := slices.DeleteFunc(slices.Clone(pairs), func(r Row) bool { return !r.Active })
	slices.SortFunc(seats, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Publisher, b.Publisher))
	})
	owners := slices.Sorted(maps.Keys(relays))
	load, assigned := map[string]int{}, map[publications.Key]string{}
	for _, s := range seats {
		if s.Leased {
			assigned[s.Key] = s.Owner
			load[s.Owner]++
		}
	}
	// least returns the relay with the fewest pairs that knows the pair.
	least := func(key publications.Key) (owner string, found bool) {
		for _, o := range owners {
			if relays[o][key] && (!found || load[o] < load[owner]) {
				owner, found = o, true
			}
		}
		return owner, found
	}
	for _, s := range seats {
		if owner, ok := least(s.Key); !s.Leased && ok {
			assigned[s.Key] = owner
			load[owner]++
		}
	}
	for moved := true; moved; {
		moved = false
		for _, s := range seats {
			from := assigned[s.Key]
			to, ok := least(s.Key)
			if ok && from != "" && relays[from] != nil && load[from] >= load[to]+2 {
				assigned[s.Key] = to
				load[from]--
				load[to]++
				moved = true
			}
		}
	}
	return assigned
}
