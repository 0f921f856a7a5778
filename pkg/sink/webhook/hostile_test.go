package webhook

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// hostile listens and passes each connection to treat. It counts the accepted connections.
func hostile(t *testing.T, treat func(ctx context.Context, conn *net.TCPConn)) (url string, accepted *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	accepted = &atomic.Int64{}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			running.Go(func() {
				stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
				defer stop()
				defer func() { _ = conn.Close() }()
				treat(ctx, conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		running.Wait()
	})
	return "http://" + listener.Addr().String(), accepted
}

// readRequest reads a whole request, so that the client takes the next bytes as the response.
func readRequest(conn net.Conn) bool {
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

// forever writes a text again and again until the client is gone, with a pause between writes.
func forever(ctx context.Context, conn net.Conn, text string, pause time.Duration) {
	for {
		if _, err := io.WriteString(conn, text); err != nil {
			return
		}
		if pause == 0 {
			continue
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// answering returns a treatment that reads requests and writes the same response to each.
func answering(answer string) func(context.Context, *net.TCPConn) {
	return func(_ context.Context, conn *net.TCPConn) {
		for readRequest(conn) {
			if _, err := io.WriteString(conn, answer); err != nil {
				return
			}
		}
	}
}

// promptly is far longer than the timeouts of these tests and far shorter than forever.
const promptly = 2 * time.Minute

func TestAHostileEndpoint(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	for name, c := range map[string]struct {
		treat func(context.Context, *net.TCPConn)
		want  string // part of the error; empty: the event is delivered
	}{
		"that never answers": {
			func(ctx context.Context, _ *net.TCPConn) { <-ctx.Done() },
			"has not answered within 300ms",
		},
		"that sends its headers bit by bit": {func(ctx context.Context, conn *net.TCPConn) {
			_ = readRequest(conn)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
			forever(ctx, conn, "X: y\r\n", 10*time.Millisecond)
		}, "has not answered within 300ms"},
		"that sends huge headers": {func(ctx context.Context, conn *net.TCPConn) {
			_ = readRequest(conn)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
			forever(ctx, conn, "X: "+strings.Repeat("y", 1000)+"\r\n", 0)
		}, "exceeded 65536 bytes"},
		"that goes on announcing an answer": {func(ctx context.Context, conn *net.TCPConn) {
			_ = readRequest(conn)
			forever(ctx, conn, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", time.Millisecond)
		}, " "},
		"that sends a body without end": {func(ctx context.Context, conn *net.TCPConn) {
			_ = readRequest(conn)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
			forever(ctx, conn, strings.Repeat("y", 1000), 0)
		}, ""},
		"that sends a body bit by bit": {func(ctx context.Context, conn *net.TCPConn) {
			_ = readRequest(conn)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
			forever(ctx, conn, "y", 100*time.Millisecond)
		}, ""},
		"that sends an error without end": {func(ctx context.Context, conn *net.TCPConn) {
			_ = readRequest(conn)
			_, _ = io.WriteString(conn, "HTTP/1.1 500 Oops\r\nContent-Length: 1000000000000\r\n\r\n")
			forever(ctx, conn, "\x1b[31mno\r\n", 0)
		}, "answers 500 Internal Server Error ([31mno [31mno"},
		"that resets the connection in the body": {func(_ context.Context, conn *net.TCPConn) {
			_ = readRequest(conn)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nyyy")
			_ = conn.SetLinger(0)
		}, ""},
		"that resets the connection instead of answering": {func(_ context.Context, conn *net.TCPConn) {
			_ = readRequest(conn)
			_ = conn.SetLinger(0)
		}, "connection reset"},
		"that closes one half of the connection": {func(ctx context.Context, conn *net.TCPConn) {
			_ = readRequest(conn)
			_ = conn.CloseWrite()
			<-ctx.Done()
		}, "EOF"},
		"that speaks something else": {answering("220 mail.example.com ESMTP\r\n"), "malformed HTTP"},
		"that wants another protocol": {answering("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: " +
			"Upgrade\r\n\r\n"), "answers 101 Switching Protocols"},
		"that lies about its length": {answering("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"), "bad Content-Length"},
		"that answers with pages": {answering("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: " +
			"6\r\n\r\n<html>"), ""},
		"that answers twice": {answering(ok + ok), ""},
		"that redirects to the metadata": {answering("HTTP/1.1 302 Found\r\nLocation: " +
			"http://169.254.169.254/latest?t=secret\r\nContent-Length: 0\r\n\r\n"), "answers 302 Found to " +
			"\"http://169.254.169.254\": redirects are not followed"},
		"that redirects to nowhere": {
			answering("HTTP/1.1 307 Oh\r\nLocation: :// x\r\nContent-Length: 0\r\n\r\n"),
			"answers 307 Temporary Redirect: redirects are not followed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := hostile(t, c.treat)
			cfg := Config{URL: url, AllowNetworks: loopback()} // the default timeout is long enough on a busy machine
			switch {
			case strings.Contains(c.want, "within"):
				cfg.Timeout = 300 * time.Millisecond
			case c.want == " ":
				cfg.Timeout = 2 * time.Second
			}
			s := open(t, cfg)
			started := time.Now()
			for seq := range int64(2) {
				err := s.Publish(t.Context(), []publisher.Event{of("a", seq+1)})
				if took := time.Since(started); took > promptly {
					t.Fatalf("it took %s", took)
				}
				if c.want == "" {
					if err != nil {
						t.Errorf("event %d: %v", seq+1, err)
					}
					continue
				}
				if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 500 {
					t.Errorf("event %d: got %v, want %q", seq+1, err, c.want)
				}
				var batch *publisher.BatchError
				if errors.As(err, &batch) {
					t.Errorf("event %d is blamed: %v", seq+1, err)
				}
			}
		})
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	inner, accepted := hostile(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	for _, status := range []int{300, 301, 302, 303, 304, 305, 307, 308} {
		url, _ := hostile(t, answering(fmt.Sprintf("HTTP/1.1 %d X\r\nLocation: %s/\r\nContent-Length: 0\r\n\r\n", status,
			inner)))
		if err := open(t, Config{URL: url, AllowNetworks: loopback()}).Publish(t.Context(),
			[]publisher.Event{of("a", 1)}); err == nil {
			t.Errorf("status %d counts as taken", status)
		}
	}
	if n := accepted.Load(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

func TestAnEndpointThatIsNotPublicIsNotDialled(t *testing.T) {
	t.Parallel()
	url, accepted := hostile(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	port := url[strings.LastIndex(url, ":"):]
	s := open(t, Config{URL: "http://localhost" + port}) // a name is checked only once it is resolved
	if err := s.Publish(t.Context(), []publisher.Event{of("a", 1)}); !errors.Is(err, errAddress) ||
		!strings.Contains(err.Error(), "allow_networks") {
		t.Errorf("got %v", err)
	}
	if accepted.Load() > 0 {
		t.Error("it was dialled")
	}
	s = open(t, Config{URL: "http://localhost" + port, AllowNetworks: loopback()})
	if err := s.Publish(t.Context(), []publisher.Event{of("a", 1)}); err != nil {
		t.Errorf("allowed, and got %v", err)
	}
}

// This test sets environment variables of the process, so it is not parallel.
// http.ProxyFromEnvironment reads them once, and no other test calls it.
func TestTheEnvironmentsProxyIsUsedOnlyIfSet(t *testing.T) {
	proxy, accepted := hostile(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	t.Setenv("HTTP_PROXY", proxy)
	t.Setenv("NO_PROXY", "")
	cfg := Config{URL: "http://198.51.100.1/", AllowNetworks: append(loopback(), mustNetwork(t, "198.51.100.1"))}
	hurried := cfg
	hurried.Timeout = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), promptly)
	defer cancel()
	if err := open(t, hurried).Publish(ctx, []publisher.Event{of("a", 1)}); err == nil || accepted.Load() > 0 {
		t.Errorf("without the setting: %v, and the proxy was asked %d times", err, accepted.Load())
	}
	for i, setting := range []string{proxy, proxyFromEnvironment} {
		cfg.Proxy = setting
		if err := open(t, cfg).Publish(ctx, []publisher.Event{of("a", 1)}); err != nil || accepted.Load() != int64(i+1) {
			t.Errorf("with the proxy %s: %v, and the proxy was asked %d times", setting, err, accepted.Load())
		}
	}
	cfg.AllowNetworks = nil
	if err := open(t, cfg).Publish(ctx, []publisher.Event{of("a", 1)}); !errors.Is(err, errAddress) {
		t.Errorf("a proxy that may not be dialled: %v", err)
	}
}
