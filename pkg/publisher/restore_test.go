package publisher_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// backup is a copy of a test's database, which can replace the original.
type backup struct {
	t          *testing.T
	admin      *pgx.Conn
	name, copy string
	pool       *pgxpool.Pool // of the database that has the name at the time
}

// takeBackup copies the database. It terminates all sessions, which may reconnect afterwards.
func takeBackup(t *testing.T, pool *pgxpool.Pool) *backup {
	t.Helper()
	cfg := pool.Config().ConnConfig.Copy()
	b := &backup{t: t, pool: pool, name: cfg.Database, copy: cfg.Database + "_backup"}
	cfg.Database = "postgres"
	var err error
	if b.admin, err = pgx.ConnectConfig(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, name := range []string{b.copy, b.name + "_old"} {
			if _, err := b.admin.Exec(t.Context(), "DROP DATABASE IF EXISTS "+
				pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil && t.Context().Err() == nil {
				t.Error(err)
			}
		}
		_ = b.admin.Close(t.Context())
	})
	b.alone(b.name, func() { b.exec("CREATE DATABASE %s TEMPLATE %s", b.copy, b.name) })
	return b
}

// terminate ends all sessions of the given databases.
const terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ANY ($1)"

// exec runs a statement on databases and retries while sessions are still leaving.
func (b *backup) exec(format string, names ...string) {
	b.t.Helper()
	quoted := make([]any, len(names))
	for i, name := range names {
		quoted[i] = pgx.Identifier{name}.Sanitize()
	}
	eventually(b.t, format, func() bool {
		_, err := b.admin.Exec(b.t.Context(), fmt.Sprintf(format, quoted...))
		var pgErr *pgconn.PgError
		// Object in use. A session may have been connecting while the others were terminated.
		if errors.As(err, &pgErr) && pgErr.Code == "55006" {
			if _, err := b.admin.Exec(b.t.Context(), terminate, names); err != nil {
				b.t.Fatal(err)
			}
			return false
		}
		if err != nil {
			b.t.Fatal(err)
		}
		return true
	})
}

// alone calls do while a database accepts no connections.
func (b *backup) alone(name string, do func()) {
	b.t.Helper()
	b.exec("ALTER DATABASE %s ALLOW_CONNECTIONS false", name)
	if _, err := b.admin.Exec(b.t.Context(), terminate, []string{name}); err != nil {
		b.t.Fatal(err)
	}
	do()
	b.exec("ALTER DATABASE %s ALLOW_CONNECTIONS true", name)
	b.pool.Reset()
}

// restore calls before on the backup and then puts the backup in the database's place.
func (b *backup) restore(before func(restored *pgxpool.Pool)) {
	b.t.Helper()
	cfg := b.pool.Config()
	cfg.ConnConfig.Database = b.copy
	pool, err := pgxpool.NewWithConfig(b.t.Context(), cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	before(pool)
	pool.Close()
	b.alone(b.name, func() {
		b.exec("ALTER DATABASE %s RENAME TO %s", b.name, b.name+"_old")
		b.exec("ALTER DATABASE %s RENAME TO %s", b.copy, b.name)
	})
}

// TestAnOlderDatabaseIsPublishedFromWhereItStood restores a journal with its
// own positions. Before the relay looks, more events are appended than were lost. The relay must
// not take lost events from its cache for the new events at their positions.
func TestAnOlderDatabaseIsPublishedFromWhereItStood(t *testing.T) {
	t.Parallel()
	for name, alive := range map[string]bool{
		"to a relay that is started afterwards": false,
		"to a relay that lives on":              true,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, sink := pgtest.New(t), &memory.Sink{}
			appendTo(t, pool, 10, "a")
			stop := start(t, quick(pool, sink))
			eventually(t, "the first have arrived", func() bool { return position(t, pool) == 10 })
			stop()
			b := takeBackup(t, pool)
			stop = start(t, quick(pool, sink))
			appendTo(t, pool, 20, "lost")
			eventually(t, "the next have arrived", func() bool { return position(t, pool) == 30 })
			if !alive {
				stop()
			}
			b.restore(func(restored *pgxpool.Pool) { appendTo(t, restored, 25, "new") })
			if !alive {
				start(t, quick(pool, sink))
			}
			eventually(t, "what was appended since has arrived", func() bool { return distinct(of(sink, "new")) == 25 })
			if n := query[int](t, pool, "SELECT count(*) FROM tidemark.journal WHERE campaign_id = 'lost'"); n != 0 {
				t.Errorf("%d events are in the journal that were not in the backup", n)
			}
		})
	}
}

// TestAPairThatKnowsMoreThanTheRestoredJournalGoesOnFromItsRow restores a backup that was taken while the
// relay held the pair. What the relay knows is of a history that is lost: it saves none of it.
func TestAPairThatKnowsMoreThanTheRestoredJournalGoesOnFromItsRow(t *testing.T) {
	t.Parallel()
	pool, sink := pgtest.New(t), &memory.Sink{}
	appendTo(t, pool, 10, "a")
	start(t, quick(pool, sink, func(c *publisher.Config, _ *publisher.Publisher) { c.LeaseTTL = time.Minute }))
	eventually(t, "the first have arrived", func() bool { return position(t, pool) == 10 })
	b := takeBackup(t, pool)
	appendTo(t, pool, 20, "lost")
	eventually(t, "the next have arrived", func() bool { return position(t, pool) == 30 })
	b.restore(func(*pgxpool.Pool) {})
	eventually(t, "the relay has claimed the pair again", func() bool {
		return query[int](t, pool, "SELECT count(*) FROM tidemark.readers WHERE position = 10 AND generation > 1") == 1
	})
	appendTo(t, pool, 25, "new")
	eventually(t, "what was appended since has arrived", func() bool { return distinct(of(sink, "new")) == 25 })
}

// TestARestoreThatNothingInTheJournalTellsIsNoticed restores a backup under a relay that held the
// pair before and after it. Before the relay looks, more events are appended than were lost.
// Neither the pair's row nor the journal's end is behind what the relay knows, and its next write
// is ahead of events it has never seen.
func TestARestoreThatNothingInTheJournalTellsIsNoticed(t *testing.T) {
	t.Parallel()
	pool, sink := pgtest.New(t), &memory.Sink{}
	appendTo(t, pool, 10, "a")
	start(t, quick(pool, sink, func(c *publisher.Config, _ *publisher.Publisher) { c.LeaseTTL = time.Minute }))
	eventually(t, "the first have arrived", func() bool { return position(t, pool) == 10 })
	b := takeBackup(t, pool)
	appendTo(t, pool, 20, "lost")
	eventually(t, "the next have arrived", func() bool { return position(t, pool) == 30 })
	b.restore(func(restored *pgxpool.Pool) { appendTo(t, restored, 25, "new") })
	appendTo(t, pool, 5, "newer")
	eventually(t, "what was appended since has arrived", func() bool {
		return distinct(of(sink, "new")) == 25 && distinct(of(sink, "newer")) == 5
	})
	eventually(t, "the pair is at the end", func() bool { return position(t, pool) == 40 })
	if n := query[int](t, pool, "SELECT count(*) FROM tidemark.readers WHERE status = 'ACTIVE'"); n != 1 {
		t.Errorf("%d pairs go on", n)
	}
}

func distinct(seqs []int64) int {
	slices.Sort(seqs)
	return len(slices.Compact(seqs))
}

func TestAPositionAheadOfTheJournalStopsThePair(t *testing.T) {
	t.Parallel()
	pool, sink := pgtest.New(t), &memory.Sink{}
	appendTo(t, pool, 3, "a")
	stop := start(t, quick(pool, sink))
	eventually(t, "all has arrived", func() bool { return position(t, pool) == 3 })
	stop()
	// a journal restored from an older backup leaves this
	mustExec(t, pool, "UPDATE tidemark.readers SET position = 1000000")
	start(t, quick(pool, sink))
	eventually(t, "the pair has failed", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM tidemark.readers WHERE status = 'FAILED'
			AND reason LIKE 'position 1000000 is ahead of the journal, which ends at 3: %'`) == 1
	})
	appendTo(t, pool, 1, "a")
	if _, err := publications.Reset(t.Context(), pool, publications.Key{Topic: "all", Publisher: "out"},
		publications.ResetTo{Position: ptr(int64(3))}, publications.Act{By: "anna", Reason: "restored"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it goes on", func() bool { return len(sink.Received()) == 4 })
}

// When the journal goes back to an older backup, positions are handed out again. A running relay
// still has the old events at those positions in its cache.
func TestWhatWasReadOfAJournalIsForgottenWhenItIsRestored(t *testing.T) {
	t.Parallel()
	pool, sink := pgtest.New(t), &memory.Sink{}
	appendTo(t, pool, 30, "a")
	// A long lease, so the pair does not look free meanwhile.
	start(t, quick(pool, sink, func(c *publisher.Config, _ *publisher.Publisher) { c.LeaseTTL = time.Minute }))
	eventually(t, "all has arrived", func() bool { return position(t, pool) == 30 })
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"ALTER TABLE tidemark.journal DISABLE TRIGGER USER", "DELETE FROM tidemark.journal WHERE seq > 10",
		"ALTER TABLE tidemark.journal ENABLE TRIGGER USER",
		"SELECT setval('tidemark.journal_position', 10)", "UPDATE tidemark.readers SET position = 10",
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pair has failed", func() bool {
		return query[int](t, pool,
			"SELECT count(*) FROM tidemark.readers WHERE status = 'FAILED' AND reason LIKE 'position 30 is ahead of the "+
				"journal, which ends at 10: %'") == 1
	})
	appendTo(t, pool, 25, "b")
	if _, err := publications.Reset(t.Context(), pool, pairKey(), publications.ResetTo{Position: ptr(int64(10))},
		anna()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was appended since has arrived", func() bool { return len(of(sink, "b")) == 25 })
	if n := len(of(sink, "a")); n != 30 {
		t.Errorf("of the events before, %d have arrived", n)
	}
}

// An operator puts a position back in the running database. The relay that holds the pair continues
// from there.
func TestAPositionThatIsPutBackInPlaceIsPublishedFrom(t *testing.T) {
	t.Parallel()
	pool, sink := pgtest.New(t), &memory.Sink{}
	appendTo(t, pool, 30, "a")
	// A long lease, so no write renews it meanwhile.
	start(t, quick(pool, sink, func(c *publisher.Config, _ *publisher.Publisher) { c.LeaseTTL = 10 * time.Minute }))
	eventually(t, "all has arrived", func() bool { return position(t, pool) == 30 })
	mustExec(t, pool, "UPDATE tidemark.readers SET position = 10")
	eventually(t, "what is behind it has arrived again", func() bool {
		return len(sink.Received()) == 50 && position(t, pool) == 30
	})
	for i, r := range sink.Received()[30:] {
		if r.Seq != int64(i+11) {
			t.Errorf("event %d came as number %d of those that came again", r.Seq, i)
		}
	}
}
