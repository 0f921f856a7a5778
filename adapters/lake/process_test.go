package lake_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/adapters/lake"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// children are programs that this test binary also is, by name.
func children() map[string]func() int {
	fallible := func(run func(context.Context, *lake.Sink) error) func() int {
		return func() int {
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
			defer stop()
			sink, err := lake.New(lake.Config{
				Path: os.Getenv("TIDEMARK_TEST_LAKE"), NoMerge: os.Getenv("TIDEMARK_TEST_LAKE_MERGE") == "",
			})
			if err == nil {
				err = errors.Join(run(ctx, sink), sink.Close())
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return 0
		}
	}
	return map[string]func() int{
		"relay": fallible(relay), "writer": fallible(writer), "limited": fallible(limited),
	}
}

func spawn(t *testing.T, child, root string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "TIDEMARK_TEST_LAKE_CHILD="+child, "TIDEMARK_TEST_LAKE="+root), env...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd
}

// relay publishes a journal.
func relay(ctx context.Context, sink *lake.Sink) error {
	pool, err := pgxpool.New(ctx, pgtest.UTF8(os.Getenv("TIDEMARK_TEST_DATABASE")))
	if err != nil {
		return err
	}
	defer pool.Close()
	relay, err := publisher.New(publisher.Config{
		Pool: pool, LeaseTTL: time.Second, PollInterval: 100 * time.Millisecond, Topics: []publisher.Topic{{Name: "all"}},
		Publishers: []publisher.Publisher{{
			Name: "lake", Sink: sink, Topics: []string{"all"}, BatchSize: 20, Concurrency: 2,
			Order: publisher.Order(os.Getenv("TIDEMARK_TEST_ORDER")),
		}},
	})
	if err != nil {
		return err
	}
	return relay.Run(ctx)
}

func TestKilledAtRandomEachEventOfAJournalIsInTheTableOnce(t *testing.T) {
	t.Parallel()
	for _, order := range []publisher.Order{publisher.OrderGlobal, publisher.OrderCampaign} {
		for _, merge := range []string{"", "yes"} {
			t.Run(fmt.Sprintf("%s merge=%s", order, merge), func(t *testing.T) {
				t.Parallel()
				root, databaseURL := t.TempDir(), pgtest.URL(t)
				pool, err := pgxpool.New(t.Context(), pgtest.UTF8(databaseURL))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(pool.Close)
				appendAll(t, pool, 2000)
				journaled := committed(t, pool)
				env := []string{
					"TIDEMARK_TEST_DATABASE=" + databaseURL, "TIDEMARK_TEST_ORDER=" + string(order), "TIDEMARK_TEST_LAKE_MERGE=" + merge,
				}
				entries := func() int {
					names, _ := os.ReadDir(root + "/_delta_log")
					return len(names)
				}
				for range 5 {
					before := entries()
					cmd := spawn(t, "relay", root, env...)
					eventually(t, "it has committed some", func() bool { return entries() > before+1 })
					more, end := before+1+rand.IntN(15), time.Now().Add(time.Duration(rand.IntN(300))*time.Millisecond)
					eventually(t, "it is time", func() bool { return entries() > more || time.Now().After(end) })
					if err := cmd.Process.Kill(); err != nil {
						t.Fatal(err)
					}
					_ = cmd.Wait()
				}
				last := spawn(t, "relay", root, env...)
				eventually(t, "all is published", func() bool {
					var position int64
					err := pool.QueryRow(t.Context(), "SELECT coalesce(max(position), -1) FROM tidemark.readers").Scan(&position)
					return err == nil && position >= journaled[len(journaled)-1].Position
				})
				if err := errors.Join(last.Process.Signal(syscall.SIGTERM), last.Wait()); err != nil {
					t.Error(err)
				}
				exactlyOnce(t, root, journaled)
				// An entry beyond the last crash lets the next process sweep what the crash left behind.
				more := events(int(journaled[len(journaled)-1].Position), 1)
				publish(t, open(t, lake.Config{Path: root, NoMerge: true}), more)
				if merge == "" {
					globbedOnce(t, root, len(journaled)+1)
				}
			})
		}
	}
}

func appendAll(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for i := range n / 10 {
			var batch []event.Event
			for j := range 10 {
				batch = append(batch, event.Event{
					Type: fmt.Sprint("type ", j%3), Payload: fmt.Appendf(nil, `{"n": %d}`, j), Tags: []string{"a", "b=1"}, Actor: "anna",
				})
			}
			if _, err := (journal.Journal{}).Append(t.Context(), tx, fmt.Sprint("c", i%17), journal.Any, batch...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// committed returns the events of the journal.
func committed(t *testing.T, pool *pgxpool.Pool) (all []publisher.Event) {
	t.Helper()
	for e, err := range journal.ReadAll(t.Context(), pool, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Metadata == nil {
			e.Metadata = []byte("{}")
		}
		all = append(all, publisher.Event{Event: e})
	}
	return all
}

// writer publishes the first 2000 events in batches, again and again if other writers are quicker.
func writer(ctx context.Context, sink *lake.Sink) error {
	for batch := range slices.Chunk(events(0, 2000), 20) {
		err := sink.Publish(ctx, batch)
		for err != nil && strings.Contains(err.Error(), "in a row") {
			err = sink.Publish(ctx, batch)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func TestProcessesThatWriteTheSameEventsAtOnceAddEachOnce(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var writers []*exec.Cmd
	for range 3 {
		writers = append(writers, spawn(t, "writer", root, "TIDEMARK_TEST_LAKE_MERGE=yes"))
	}
	for _, w := range writers {
		if err := w.Wait(); err != nil {
			t.Error(err)
		}
	}
	exactlyOnce(t, root, events(0, 2000))
}

// limited publishes while no file may have more than a few bytes, and then without that limit.
func limited(ctx context.Context, sink *lake.Sink) error {
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if err := sink.Publish(ctx, events(0, 10)); err != nil {
		return err
	}
	for _, bytes := range []uint64{0, 100, 3000} {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: limit.Max}); err != nil {
			return err
		}
		err := sink.Publish(ctx, events(10, 500))
		if !errors.Is(err, syscall.EFBIG) || fmt.Sprintf("%T", err) != fmt.Sprintf("%T", publisher.Outage(err)) {
			return fmt.Errorf("with %d bytes: got %w", bytes, err)
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	return sink.Publish(ctx, events(10, 500))
}

func TestAFullDiskIsAnOutageAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := spawn(t, "limited", root).Wait(); err != nil {
		t.Fatal(err)
	}
	exactlyOnce(t, root, events(0, 510))
	globbedOnce(t, root, 510)
}
