package memory

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/internal/freeport"
)

const (
	idleStreams      = 1000
	idleStreamsLimit = 50 << 20
	streamsOfOne     = 50 // of one user
	firstStreams     = 10 // open before, for what they share
	opensWithin      = 30 * time.Second
	lookAgain        = 50 * time.Millisecond // until the worker listens
	idleFor          = 2 * time.Second       // before a reading
	appendNoted      = `SELECT tidemark.append('noted', '[{"type": "noted"}]')`
)

// MeasureStreams opens streams of events at the stock worker, and reads by how much its resident memory
// grows once they are idle. Each stream gets one event before and one after the reading.
func MeasureStreams(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	db, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Drop(context.WithoutCancel(ctx))
	port, err := freeport.TCP(ctx)
	if err != nil {
		return nil, err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	worker, err := harness.StartProgram(ctx, "./cmd/worker", "TIDEMARK_DATABASE_URL="+db.URL, "TIDEMARK_HTTP_ADDR=off",
		"TIDEMARK_PROJECTIONS_DIR=internal/harness/projections", "TIDEMARK_LOG_FORMAT=json", "TIDEMARK_ADMIN_ADDR="+addr,
		"TIDEMARK_ADMIN_PROXIES=127.0.0.1/32")
	if err != nil {
		return nil, err
	}
	grown, err := growth(ctx, db, worker, addr)
	if err := errors.Join(err, worker.Stop()); err != nil {
		return nil, err
	}
	return []harness.Figure{harness.AtMost(1, harness.Figure{
		Name: "streams_memory", Value: float64(grown) / (1 << 20), Unit: "MiB", Ratio: float64(grown) / idleStreamsLimit,
		To: fmt.Sprintf("%d MiB, with %d idle streams", idleStreamsLimit>>20, idleStreams),
	})}, nil
}

func growth(ctx context.Context, db *harness.Database, worker *harness.Worker, addr string) (int64, error) {
	conn, err := db.Connect(ctx)
	if err != nil {
		return 0, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var open []*eventStream
	defer func() {
		for _, s := range open {
			_ = s.Close()
		}
	}()
	upTo := func(n int) (int64, error) {
		for len(open) < n {
			s, err := openStream(ctx, addr, len(open))
			if err != nil {
				return 0, err
			}
			open = append(open, s)
		}
		if err := toAll(ctx, conn, open); err != nil {
			return 0, err
		}
		time.Sleep(idleFor)
		return worker.Memory()
	}
	before, err := upTo(firstStreams)
	if err != nil {
		return 0, err
	}
	after, err := upTo(idleStreams)
	if err != nil {
		return 0, err
	}
	return after - before, toAll(ctx, conn, open)
}

// eventStream is a connection that a stream was asked for.
type eventStream struct {
	net.Conn
	lines *bufio.Scanner
}

func openStream(ctx context.Context, addr string, i int) (*eventStream, error) {
	deadline := time.Now().Add(opensWithin)
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil && time.Now().Before(deadline) {
			time.Sleep(lookAgain) // the worker starts
			continue
		}
		if err != nil {
			return nil, err
		}
		s := &eventStream{conn, bufio.NewScanner(conn)}
		path := "/api/v1/campaigns/noted/events/stream"
		if i%2 == 0 {
			path = "/api/v1/events/stream?type=noted"
		}
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nX-Forwarded-User: u%d\r\n\r\n", path, addr, i/streamsOfOne)
		return s, err
	}
}

// toAll appends an event, and waits until all streams have it.
func toAll(ctx context.Context, conn *pgx.Conn, open []*eventStream) error {
	if _, err := conn.Exec(ctx, appendNoted); err != nil {
		return err
	}
	var seq int64
	if err := conn.QueryRow(ctx, `SELECT max(seq) FROM tidemark.journal WHERE campaign_id = 'noted'`).Scan(&seq); err != nil {
		return err
	}
	for i, s := range open {
		if err := s.SetReadDeadline(time.Now().Add(opensWithin)); err != nil {
			return err
		}
		for !strings.Contains(s.lines.Text(), fmt.Sprintf(`"seq":%d,`, seq)) {
			if !s.lines.Scan() {
				return fmt.Errorf("stream %d has not got event %d: %w", i, seq, s.lines.Err())
			}
		}
	}
	return nil
}
