package redis_test

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/sink/redis"
	"github.com/tidemark-go/tidemark/test/support/redistest"
)

// replica is a server that follows another one.
type replica struct {
	*client.Client
	pid int
}

// follow starts a replica of a server, and waits until it follows.
func (s *server) follow(args ...string) *replica {
	s.t.Helper()
	host, port, err := net.SplitHostPort(s.Options().Addr)
	if err != nil {
		s.t.Fatal(err)
	}
	r := &replica{Client: client.NewClient(&client.Options{Addr: redistest.Start(s.t,
		append(args, "--replicaof", host, port)...)})}
	s.t.Cleanup(func() { _ = r.Close() })
	info, err := r.Info(s.t.Context(), "server").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	for lines := bufio.NewScanner(strings.NewReader(info)); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "process_id:"); ok {
			if r.pid, err = strconv.Atoi(text); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	s.eventually("the replica follows", func() bool {
		return strings.Contains(s.do("info", "replication").(string), "state=online")
	})
	return r
}

func (s *server) eventually(what string, condition func() bool) {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(3 * time.Minute); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			s.t.Fatalf("it did not come to be that %s", what)
		}
	}
}

// signal stops the replica's process, or lets it go on: it stays connected, and acknowledges nothing.
func (s *server) signal(r *replica, sig syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(r.pid, sig); err != nil {
		s.t.Fatal(err)
	}
}

func TestABatchIsPublishedOnceEnoughReplicasHaveIt(t *testing.T) {
	t.Parallel()
	b := start(t, "--repl-diskless-sync-delay", "0") // by default it waits for more replicas before it lets one follow
	r := b.follow()
	cfg := redis.Config{Servers: []string{b.address()}, Stream: "s", MinReplicas: 1, ReplicaTimeout: 5 * time.Second}
	first, second := event("a", 1, 100), event("b", 1, 90)
	patient := open(t, cfg)
	b.eventually("the first is published", func() bool {
		return patient.Publish(t.Context(), []publisher.Event{first}) == nil
	})
	if n, err := r.XLen(t.Context(), "s").Result(); n != 1 || err != nil {
		t.Errorf("the replica has %d entries, %v", n, err)
	}
	b.signal(r, syscall.SIGSTOP)
	cfg.ReplicaTimeout = 20 * time.Millisecond
	hasty := open(t, cfg)
	for range 3 { // what is there already is no more on the replica than it was
		err := hasty.Publish(t.Context(), []publisher.Event{first, second})
		if err == nil || !marked(err) || !strings.Contains(err.Error(), "0 of 1 replicas") {
			t.Fatalf("got %v", err)
		}
		if err := hasty.Healthy(t.Context()); err != nil {
			t.Errorf("Redis itself is well: %v", err)
		}
		hasty = open(t, cfg) // as another worker: its connection has written nothing yet
	}
	if b.do("hexists", "{s}:late", "") != int64(1) {
		t.Error("a batch that was there already has written nothing that WAIT, as documented, could wait for")
	}
	b.signal(r, syscall.SIGCONT)
	b.eventually("the second is published", func() bool {
		return patient.Publish(t.Context(), []publisher.Event{first, second}) == nil
	})
	if n, err := r.XLen(t.Context(), "s").Result(); n != 2 || err != nil {
		t.Errorf("the replica has %d entries, %v", n, err)
	}
	if ids, _ := b.entries("s"); fmt.Sprint(ids) != "[100-0 100-1]" {
		t.Errorf("the stream has %s", ids)
	}
}

func TestMoreReplicasThanThereAreIsAnOutage(t *testing.T) {
	t.Parallel()
	b := start(t)
	s := open(t, redis.Config{Servers: []string{b.address()}, MinReplicas: 1, ReplicaTimeout: time.Millisecond})
	if err := s.Publish(t.Context(), []publisher.Event{event("a", 1, 1)}); err == nil || !marked(err) ||
		!strings.Contains(err.Error(), "0 of 1 replicas") {
		t.Errorf("got %v", err)
	}
}

func TestOfAClusterTheStreamsServerWaitsForItsReplicas(t *testing.T) {
	t.Parallel()
	b := start(t, "--cluster-enabled", "yes")
	b.do("cluster", "addslotsrange", "0", "16383")
	s := open(t, redis.Config{
		Servers: []string{b.Options().Addr}, Cluster: true, Stream: "of {campaign}", MinReplicas: 1,
		ReplicaTimeout: time.Millisecond,
	})
	batch := []publisher.Event{event("a", 1, 1), event("b", 1, 2), event("a", 2, 3)}
	// the node takes a moment to find that it is a whole cluster
	b.eventually("it says that there is no replica", func() bool {
		err := s.Publish(t.Context(), batch)
		return err != nil && strings.Contains(err.Error(), "0 of 1 replicas")
	})
	for _, campaign := range []string{"a", "b"} {
		b.eventually("the events of "+campaign+" are there", func() bool {
			_ = s.Publish(t.Context(), batch)
			ids, _ := b.entries("of " + campaign)
			return len(ids) == map[string]int{"a": 2, "b": 1}[campaign]
		})
	}
}
