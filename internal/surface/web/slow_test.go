package web

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/auth"
)

// pipes is a listener with unbuffered connections: a writer waits for the reader.
type pipes struct {
	connections chan net.Conn
	closed      chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.connections:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.IPAddr{} }

// open requests a stream and reads nothing.
func (p *pipes) open(t *testing.T) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	select {
	case p.connections <- server:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
	if _, err := fmt.Fprint(client, "GET /events HTTP/1.1\r\nHost: here\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// streaming serves a hub with news at each poll. The channel receives a value when a stream has
// ended.
func streaming(t *testing.T, patience time.Duration) (*hub, *pipes, <-chan struct{}) {
	t.Helper()
	var polls atomic.Int64
	holds := func(_ context.Context, ids []auth.Identity) ([]bool, error) {
		all := make([]bool, len(ids))
		for i := range all {
			all[i] = true
		}
		return all, nil
	}
	h := newHub(Config{
		StreamInterval: time.Millisecond, MaxStreams: 10, MaxStreamsEach: 10,
		Logger: slog.New(slog.DiscardHandler),
	}, holds, func(context.Context) (marks, error) { return marks{Position: polls.Add(1)}, nil })
	h.patience = patience
	listener := &pipes{make(chan net.Conn), make(chan struct{})}
	gone := make(chan struct{}, 10)
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r)
			gone <- struct{}{}
		}),
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{}, 2)
	go func() { _ = server.Serve(listener); ended <- struct{}{} }()
	go func() { _ = h.Run(ctx); ended <- struct{}{} }()
	t.Cleanup(func() {
		stop()
		_ = server.Close()
		<-ended
		<-ended
	})
	return h, listener, gone
}

func (h *hub) open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.streams)
}

// until waits for a number of open streams.
func (h *hub) until(t *testing.T, streams int) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for h.open() != streams {
		select {
		case <-deadline:
			t.Fatalf("%d streams are open, want %d", h.open(), streams)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestAClientThatReadsNothingHoldsNothingUp(t *testing.T) {
	t.Parallel()
	h, listener, _ := streaming(t, time.Hour)
	listener.open(t)
	h.until(t, 1)
	lines := bufio.NewScanner(listener.open(t))
	news := 0
	for news < 50 && lines.Scan() {
		if strings.HasPrefix(lines.Text(), "event: marks") {
			news++
		}
	}
	if news != 50 || h.open() != 2 {
		t.Errorf("beside a client that reads nothing another is told of %d events, %v; %d streams are open", news,
			lines.Err(), h.open())
	}
}

func TestAClientThatReadsNothingIsDropped(t *testing.T) {
	t.Parallel()
	h, listener, gone := streaming(t, 10*time.Millisecond)
	listener.open(t)
	select {
	case <-gone:
	case <-time.After(2 * time.Minute):
		t.Fatal("it still has its stream")
	}
	if n := h.open(); n != 0 {
		t.Errorf("%d streams are open", n)
	}
}

func TestARequestHasAnEnd(t *testing.T) {
	t.Parallel()
	asked := false
	handler := bounded(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked = true
		if until, ok := r.Context().Deadline(); !ok || time.Until(until) > 30*time.Second {
			t.Errorf("a request may take until %s, want 30 s", until)
		}
	}))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if !asked {
		t.Error("the request has not got through")
	}
}

func TestNothingIsKeptForAClientThatReadsNothing(t *testing.T) {
	t.Parallel()
	h, _, _ := streaming(t, 10*time.Millisecond)
	listener := &pipes{make(chan net.Conn), make(chan struct{})}
	var fills atomic.Int64
	more, gone := make(chan struct{}), make(chan struct{})
	close(more) // there is always more to send
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.stream(w, r, func(b *bytes.Buffer) (<-chan struct{}, error) {
				fills.Add(1)
				b.Write(make([]byte, 64<<10))
				return more, nil
			})
			close(gone)
		}),
	}
	ended := make(chan struct{})
	go func() { _ = server.Serve(listener); close(ended) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	listener.open(t)
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Fatal("it still has its stream")
	}
	if n := fills.Load(); n != 1 {
		t.Errorf("%d writes were made for a client that read nothing of the first", n)
	}
}
