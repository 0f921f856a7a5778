package dcb_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

const (
	// clientEnv turns the test binary into a client that counts up. Its value is the database's
	// address.
	clientEnv = "TIDEMARK_TEST_COUNTER"
	// halfwayEnv makes the client append, report it and never commit.
	halfwayEnv = "TIDEMARK_TEST_HALFWAY"
)

// client appends pairs of events until it is killed. It prints each number that it knows to be
// committed.
func client(url string, out io.Writer) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, pgtest.UTF8(url))
	if err != nil {
		return err
	}
	defer pool.Close()
	if os.Getenv(halfwayEnv) != "" {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, condition, err := journal.Decide(ctx, tx, event.Tagged([]string{"counter"}), valueOf)
			if err != nil {
				return err
			}
			if _, err := (journal.Journal{}).AppendIf(ctx, tx, []event.Event{
				newEvent("halfway", "counted", "counter"),
				newEvent("halfway twice", "counted", "counter"),
			}, condition); err != nil {
				return err
			}
			if _, err := fmt.Fprintln(out, 0); err != nil {
				return err
			}
			select {}
		})
	}
	for {
		places, err := countUp(ctx, pool, fmt.Sprint("c", os.Getpid()))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, places[0].Position); err != nil {
			return err
		}
	}
}

// killed starts a client, kills it with SIGKILL once it has printed the given number of lines, and
// returns the numbers.
func killed(t *testing.T, url string, lines int, env ...string) (printed []int64) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Error(err)
		return nil
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(append(os.Environ(), clientEnv+"="+url), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	scanner := bufio.NewScanner(out)
	for len(printed) < lines && scanner.Scan() {
		n, err := strconv.ParseInt(scanner.Text(), 10, 64)
		if err != nil {
			t.Error(err)
		}
		printed = append(printed, n)
	}
	if len(printed) < lines {
		t.Errorf("a client ended after %d appends, %v", len(printed), scanner.Err())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	for scanner.Scan() { // numbers printed meanwhile count as well
		if n, err := strconv.ParseInt(scanner.Text(), 10, 64); err == nil {
			printed = append(printed, n)
		}
	}
	_ = cmd.Wait() // it was killed
	return printed
}

// A client killed before its commit leaves neither a part of its append nor a lock.
func TestAClientKilledBeforeItsCommitLeavesNothing(t *testing.T) {
	t.Parallel()
	pool := open(t, 2)
	killed(t, pool.Config().ConnString(), 1, halfwayEnv+"=1")
	if err := appendIf(t.Context(), pool, journal.Condition{FailIfMatch: event.Tagged([]string{"counter"})},
		newEvent("a", "counted", "counter")); err != nil {
		t.Error(err)
	}
}

// Processes are killed while they append on one condition. The count has no gap and no duplicate,
// each append has both of its events, and every acknowledged number is in the journal.
func TestClientsKilledInMidAppendKeepTheCount(t *testing.T) {
	t.Parallel()
	pool := open(t, 2)
	const clients, lives = 3, 3
	answered := make([][]int64, clients)
	var g errgroup.Group
	for n := range clients {
		g.Go(func() error {
			for range lives {
				answered[n] = append(answered[n], killed(t, pool.Config().ConnString(), 1+rand.IntN(5))...)
			}
			return nil
		})
	}
	_ = g.Wait() // none fails
	places, err := countUp(t.Context(), pool, "last")
	if err != nil {
		t.Fatal(err)
	}
	there, next := map[int64]bool{}, 0
	for e, err := range journal.ReadAll(t.Context(), pool, 0) {
		if err != nil {
			t.Fatal(err)
		}
		value := -1
		if err := valueOf(&value, e); err != nil {
			t.Fatal(err)
		}
		if want := next/2 + 1; value != want {
			t.Fatalf("event %d of campaign %s counts %d, want %d", e.Seq, e.CampaignID, value, want)
		}
		there[e.Position] = true
		next++
	}
	if next%2 != 0 || !there[places[1].Position] {
		t.Errorf("%d events", next)
	}
	for _, positions := range answered {
		for _, position := range positions {
			if !there[position] {
				t.Errorf("the event at position %d was answered and is not there", position)
			}
		}
	}
}
