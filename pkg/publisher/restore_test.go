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

// backup is a copy of a test's database, to be put in its place.
type backup struct {
	t          *testing.T
	admin      *pgx.Conn
	name, copy string
	pool       *pgxpool.Pool // of whoever comes to the database's name
}

// takeBackup copies the database. Its sessions are ended, and may come back afterwards.
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

// terminate sends away who is connected to a database.
const terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ANY ($1)"

// exec runs a statement on databases, for as long as sessions are still leaving them.
func (b *backup) exec(format string, names ...string) {
	b.t.Helper()
	quoted := make([]any, len(names))
	for i, name := range names {
		quoted[i] = pgx.Identifier{name}.Sanitize()
	}
	eventually(b.t, format, func() bool {
		_, err := b.admin.Exec(b.t.Context(), fmt.Sprintf(format, quoted...))
		var pgErr *pgconn.PgError
		// object in use, perhaps by one who was on the way in when all others were sent away
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

// alone does something while a database has no connections.
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

// restore puts the backup in the database's place, after something was done to it.
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

// TestAnOlderDatabaseInThePlaceOfTheJournalIsPublishedFromWhereItStood has the restored positions
// go with the restored journal, and more appended to it than was lost before the relay sees it:
// what it had read of the lost events must not be taken for those that stand at their positions
// now.
func TestAnOlderDatabaseInThePlaceOfTheJournalIsPublishedFromWhereItStood(t *testing.T) {
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

// TestAPairThatKnowsMoreThanTheRestoredJournalStopsAndSaysSo has a backup that was taken while the
// relay held the pair, so that nothing but the position tells.
func TestAPairThatKnowsMoreThanTheRestoredJournalStopsAndSaysSo(t *testing.T) {
	t.Parallel()
	pool, sink := pgtest.New(t), &memory.Sink{}
	appendTo(t, pool, 10, "a")
	stop := start(t, quick(pool, sink, func(c *publisher.Config, _ *publisher.Publisher) { c.LeaseTTL = time.Minute }))
	eventually(t, "the first have arrived", func() bool { return position(t, pool) == 10 })
	b := takeBackup(t, pool)
	appendTo(t, pool, 20, "lost")
	eventually(t, "the next have arrived", func() bool { return position(t, pool) == 30 })
	b.restore(func(*pgxpool.Pool) {})
	failed := func() bool {
		return query[int](t, pool, `SELECT count(*) FROM tidemark.publications WHERE status = 'FAILED'
			AND reason LIKE 'position 30 is ahead of the journal, which ends at 10: the database was restored from an older backup, %Reset the pair to a position up to 10'`) == 1
	}
	eventually(t, "the pair has failed", failed)
	stop()
	appendTo(t, pool, 25, "new")
	start(t, quick(pool, sink)) // changes nothing
	if _, err := publications.Reset(t.Context(), pool, pairKey(), publications.ResetTo{Position: ptr(int64(10))},
		anna()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was appended since has arrived", func() bool { return distinct(of(sink, "new")) == 25 })
}

// TestARestoreThatNothingInTheJournalTellsIsNoticed has the relay hold the pair before the backup
// and after it, and more appended to the restored journal than was lost, before the relay looks:
// neither the pair's row nor the journal's end is behind what it knows, and what it has to write
// down is ahead of events that it has never seen.
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
	if n := query[int](t, pool, "SELECT count(*) FROM tidemark.publications WHERE status = 'ACTIVE'"); n != 1 {
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
	// as a journal restored from an older backup leaves it
	mustExec(t, pool, "UPDATE tidemark.publications SET position = 1000000")
	start(t, quick(pool, sink))
	eventually(t, "the pair has failed", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM tidemark.publications WHERE status = 'FAILED'
			AND reason LIKE 'position 1000000 is ahead of the journal, which ends at 3: %'`) == 1
	})
	appendTo(t, pool, 1, "a")
	if _, err := publications.Reset(t.Context(), pool, publications.Key{Topic: "all", Publisher: "out"},
		publications.ResetTo{Position: ptr(int64(3))}, publications.Act{By: "anna", Reason: "restored"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it goes on", func() bool { return len(sink.Received()) == 4 })
}

// A relay that lives on when the journal goes back to an older backup remembers what stood at
// positions that are handed out again.
func TestWhatWasReadOfAJournalIsForgottenWhenItIsRestored(t *testing.T) {
	t.Parallel()
	pool, sink := pgtest.New(t), &memory.Sink{}
	appendTo(t, pool, 30, "a")
	// it is not taken for free meanwhile
	start(t, quick(pool, sink, func(c *publisher.Config, _ *publisher.Publisher) { c.LeaseTTL = time.Minute }))
	eventually(t, "all has arrived", func() bool { return position(t, pool) == 30 })
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"ALTER TABLE tidemark.journal DISABLE TRIGGER USER", "DELETE FROM tidemark.journal WHERE seq > 10",
		"ALTER TABLE tidemark.journal ENABLE TRIGGER USER",
		"SELECT setval('tidemark.journal_position', 10)", "UPDATE tidemark.publications SET position = 10",
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
			"SELECT count(*) FROM tidemark.publications WHERE status = 'FAILED' AND reason LIKE 'position 30 is ahead of the "+
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

// A position that is put back in place, in the running database, is no write of a relay: one that
// holds the pair goes on from it.
func TestAPositionThatIsPutBackInPlaceIsPublishedFrom(t *testing.T) {
	t.Parallel()
	pool, sink := pgtest.New(t), &memory.Sink{}
	appendTo(t, pool, 30, "a")
	// nothing is written to prolong it meanwhile
	start(t, quick(pool, sink, func(c *publisher.Config, _ *publisher.Publisher) { c.LeaseTTL = 10 * time.Minute }))
	eventually(t, "all has arrived", func() bool { return position(t, pool) == 30 })
	mustExec(t, pool, "UPDATE tidemark.publications SET position = 10")
	eventually(t, "what is behind it has arrived again", func() bool {
		return len(sink.Received()) == 50 && position(t, pool) == 30
	})
	for i, r := range sink.Received()[30:] {
		if r.Seq != int64(i+11) {
			t.Errorf("event %d came as number %d of those that came again", r.Seq, i)
		}
	}
}
