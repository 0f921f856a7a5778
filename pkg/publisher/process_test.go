package publisher_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// post is a sink that sends each event of a batch to the test in a request of its own, so a process
// can die in the middle of a batch.
type post struct{ url, who string }

func (s post) Name() string { return "post" }

func (s post) Publish(ctx context.Context, events []publisher.Event) error {
	for _, e := range events {
		body, err := json.Marshal(memory.Received{
			Topic: s.who, ID: e.ID, CampaignID: e.CampaignID, Seq: e.Seq,
			Position: e.Position,
		})
		if err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	return nil
}

// child runs a relay in a process of its own.
func child() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, pgtest.UTF8(os.Getenv("TIDEMARK_TEST_RELAY")))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer pool.Close()
	ttl, err := time.ParseDuration(os.Getenv("TIDEMARK_TEST_TTL"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	relay, err := publisher.New(publisher.Config{
		Pool: pool, LeaseTTL: ttl, PollInterval: 100 * time.Millisecond, Topics: []publisher.Topic{{Name: "all"}},
		Publishers: []publisher.Publisher{{
			Name: "out", Sink: post{os.Getenv("TIDEMARK_TEST_SINK"), fmt.Sprint(os.Getpid())},
			Topics: []string{"all"}, BatchSize: 20, Concurrency: 2,
		}},
	})
	if err == nil {
		err = relay.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// destination receives the requests of post.
type destination struct {
	*httptest.Server
	mu       sync.Mutex
	received []memory.Received
}

func newDestination(t *testing.T) *destination {
	d := &destination{}
	d.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e memory.Received
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.received = append(d.received, e)
	}))
	t.Cleanup(d.Close)
	return d
}

func (d *destination) all() []memory.Received {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]memory.Received(nil), d.received...)
}

// by returns the number of events that a process has sent.
func (d *destination) by(pid int) (n int) {
	for _, r := range d.all() {
		if r.Topic == fmt.Sprint(pid) {
			n++
		}
	}
	return n
}

// spawn starts a process that runs a relay with the given lease TTL.
func spawn(t *testing.T, url string, d *destination, ttl time.Duration) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TIDEMARK_TEST_RELAY="+url, "TIDEMARK_TEST_SINK="+d.URL, "TIDEMARK_TEST_TTL="+
		ttl.String())
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

// poolFor returns a pool and the URL of its database, for other processes.
func poolFor(t *testing.T) (*pgxpool.Pool, string) {
	t.Helper()
	url := pgtest.URL(t)
	pool, err := pgxpool.New(t.Context(), pgtest.UTF8(url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool, url
}

func TestAKilledProcessIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	pool, url := poolFor(t)
	d := newDestination(t)
	appendTo(t, pool, 200, "a", "b", "c", "d", "e")
	for range 3 {
		before := len(d.all())
		cmd := spawn(t, url, d, time.Second)
		eventually(t, "it has sent some", func() bool { return len(d.all()) > before+100 })
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	before := len(d.all())
	last := spawn(t, url, d, time.Second)
	eventually(t, "another goes on, once the lease of 1 s is over", func() bool { return len(d.all()) > before })
	eventually(t, "all has arrived", func() bool { return hasAll(d.all(), committed(t, pool)) })
	inOrder(t, d.all())
	eventually(t, "the position is at the end", func() bool { return position(t, pool) == 1000 })
	if err := last.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := last.Wait(); err != nil {
		t.Error(err)
	}
}

func TestAStoppedProcessChangesNothingWhenItComesBack(t *testing.T) {
	t.Parallel()
	pool, url := poolFor(t)
	d := newDestination(t)
	appendTo(t, pool, 400, "a", "b", "c", "d", "e")
	zombie := spawn(t, url, d, time.Second)
	eventually(t, "it has sent some", func() bool { return len(d.all()) > 200 })
	if err := zombie.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := query[int64](t, pool, "SELECT generation FROM tidemark.readers")
	other := spawn(t, url, d, time.Minute) // a long lease, so a busy machine does not lose it
	eventually(t, "the pair is the other's", func() bool {
		return query[int64](t, pool, "SELECT generation FROM tidemark.readers") > stopped
	})
	eventually(t, "the other has sent all", func() bool { return hasAll(d.all(), committed(t, pool)) })
	eventually(t, "the position is at the end", func() bool { return position(t, pool) == 2000 })
	generation := query[int64](t, pool, "SELECT generation FROM tidemark.readers")
	before := d.by(zombie.Process.Pid)
	if err := zombie.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	appendTo(t, pool, 50, "a", "b")
	eventually(t, "the rest has arrived", func() bool { return hasAll(d.all(), committed(t, pool)) })
	eventually(t, "the position is at the end", func() bool { return position(t, pool) == 2100 })
	inOrder(t, d.all())
	if more := d.by(zombie.Process.Pid) - before; more > 40 {
		t.Errorf("the one that was stopped has sent %d more events, beyond the batches under way", more)
	}
	if now := query[int64](t, pool, "SELECT generation FROM tidemark.readers"); now != generation {
		t.Errorf("the pair has changed hands: generation %d, then %d", generation, now)
	}
	for _, cmd := range []*exec.Cmd{zombie, other} {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}
