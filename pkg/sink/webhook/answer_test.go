package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/webhook"
)

func serve(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.URL
}

// campaignOf returns the campaign of a request's event.
func campaignOf(r *http.Request) string { return r.Header.Get("Tidemark-Campaign-Id") }

func TestEachStatusMeansOneThing(t *testing.T) {
	t.Parallel()
	const (
		taken    = "taken"
		forGood  = "refused for good"
		refused  = "refused"
		endpoint = "the endpoint does not work"
	)
	want := map[int]string{
		200: taken, 201: taken, 202: taken, 204: taken, 299: taken,
		301: endpoint, 302: endpoint, 304: endpoint, 308: endpoint,
		400: forGood, 413: forGood, 422: forGood,
		401: endpoint, 403: endpoint, 404: endpoint, 405: endpoint, 407: endpoint, 410: endpoint, 415: endpoint,
		429: endpoint,
		402: refused, 409: refused, 418: refused, 431: refused, 451: refused, 499: refused,
		// only this event: others get through
		408: refused, 425: refused, 500: refused, 502: refused, 503: refused, 504: refused, 599: refused,
		600: refused, 999: refused,
	}
	for status, want := range want {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if campaignOf(r) == "b" {
					w.WriteHeader(status)
				}
			})
			s := open(t, Config{URL: url, AllowNetworks: loopback(), Concurrency: 1})
			err := s.Publish(t.Context(), []publisher.Event{of("a", 1), of("b", 1), of("b", 2), of("c", 1)})
			var batch *publisher.BatchError
			got := taken
			if err != nil {
				if !errors.As(err, &batch) || !strings.Contains(err.Error(), fmt.Sprintf("answers %d", status)) {
					t.Fatalf("got %v", err)
				}
				first, last := batch.Failures[0], batch.Failures[len(batch.Failures)-1]
				switch {
				case first.Index != 1 || !errors.Is(batch.Failures[1].Err, publisher.ErrNotTried):
					t.Errorf("the failures are %v", batch.Failures)
				case first.Permanent:
					got = forGood
				case !errors.Is(first.Err, publisher.ErrNotTried):
					got = refused
				default:
					got = endpoint
				}
				if behind := last.Index == 3; behind != (got == endpoint) {
					t.Errorf("the last failure is event %d", last.Index)
				}
			}
			if got != want {
				t.Errorf("it means %s, want %s: %v", got, want, err)
			}
		})
	}
}

func TestWhatFailsAlwaysIsTheEndpointsFault(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusBadGateway)
	})
	var events []publisher.Event
	for i := range 100 {
		events = append(events, of(fmt.Sprint(i), 1))
	}
	err := open(t, Config{URL: url, AllowNetworks: loopback(), Concurrency: 2}).Publish(t.Context(), events)
	var batch *publisher.BatchError
	if err == nil || errors.As(err, &batch) {
		t.Errorf("got %v", err)
	}
	if n := requests.Load(); n < suspectsInARow || n > suspectsInARow+1 {
		t.Errorf("it was asked %d times", n)
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "301": 301 * time.Second,
		"99999999999999999999999": (1<<31 - 1) * time.Second,
		"-7":                      0, "7.5": 0, "soon": 0, "+7": 0,
		"Sun, 01 Mar 2026 12:00:42 GMT": 42 * time.Second, "Sunday, 01-Mar-26 12:00:42 GMT": 42 * time.Second,
		"Sun Mar  1 12:00:42 2026":      42 * time.Second,
		"Sun, 01 Mar 2026 11:59:59 GMT": 0,
	} {
		if wait := retryAfter(text, now); wait != want {
			t.Errorf("%q: %s, want %s", text, wait, want)
		}
	}
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		var requests atomic.Int64
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if requests.Add(1) > 1 {
				w.Header().Set("Retry-After", "120")
				w.WriteHeader(status)
			}
		})
		err := open(t, Config{URL: url, AllowNetworks: loopback(), Concurrency: 1}).Publish(t.Context(),
			[]publisher.Event{of("a", 1), of("a", 2), of("b", 1), of("c", 1)})
		var batch *publisher.BatchError
		if !errors.As(err, &batch) || len(batch.Failures) != 3 || requests.Load() != 2 {
			t.Errorf("%d: after %d requests got %v", status, requests.Load(), err)
		}
		cause := errorOf(err)
		marked, ok := cause.(interface{ Unwrap() []error })
		if !ok || !reflect.DeepEqual(cause, publisher.RetryAfter(marked.Unwrap()[0], 2*time.Minute)) {
			t.Errorf("%d: the relay is told %#v", status, cause)
		}
	}
}

func TestGonePausesAndKeepsWhatWasTaken(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if campaignOf(r) != "a" {
			w.WriteHeader(http.StatusGone)
		}
	})
	err := open(t, Config{URL: url, AllowNetworks: loopback(), Concurrency: 1}).Publish(t.Context(),
		[]publisher.Event{of("a", 1), of("b", 1), of("c", 1)})
	var batch *publisher.BatchError
	if !errors.As(err, &batch) || len(batch.Failures) != 2 ||
		fmt.Sprintf("%T", errorOf(err)) != fmt.Sprintf("%T", publisher.Pause(nil)) {
		t.Errorf("got %v", err)
	}
}

// errorOf returns the cause of an error of Publish.
func errorOf(err error) error {
	var p *partly
	if errors.As(err, &p) {
		return p.cause
	}
	return err
}

func TestSeveralRequestsAtOnceButNotTooMany(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	running, most, full := 0, 0, make(chan struct{})
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if running++; running > most {
			if most = running; most == 3 {
				close(full)
			}
		}
		mu.Unlock()
		select {
		case <-full: // closed when as many requests as allowed run at once
		case <-r.Context().Done():
		}
		mu.Lock()
		running--
		mu.Unlock()
	})
	s := open(t, Config{URL: url, AllowNetworks: loopback(), Concurrency: 3})
	var calls sync.WaitGroup
	for call := range 3 { // all calls share one limit
		calls.Go(func() {
			var events []publisher.Event
			for i := range 20 {
				events = append(events, of(fmt.Sprint(call, " ", i), 1))
			}
			if err := s.Publish(t.Context(), events); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if most != 3 {
		t.Errorf("%d requests were under way at once, want 3", most)
	}
}

func TestAnAttemptIsSignedAnewUnderTheSameID(t *testing.T) {
	t.Parallel()
	o := newOther(t)
	old := webhook.NewSecret()
	s := open(t, Config{
		URL: "http://anna:pass@" + o.address + "/a?b=c", Secrets: []webhook.Secret{old, o.secret}, AllowNetworks: loopback(),
		Headers: map[string]string{"X-Tenant": "7"},
	})
	e := of("żó ł%\n\"", 1)
	e.Metadata = []byte(`{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=%20b"}`)
	for range 2 {
		if err := s.Publish(t.Context(), []publisher.Event{e}); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range o.headers {
		for name, want := range map[string]string{
			"webhook-id": e.Identity(), "Tidemark-Event-Id": e.ID.String(), "Tidemark-Event-Type": "noted",
			"Tidemark-Seq": "1", "X-Tenant": "7", "Tracestate": "a=%20b",
			"Authorization": "Basic YW5uYTpwYXNz", "Content-Type": "application/json",
			"Tidemark-Campaign-Id": "%C5%BC%C3%B3%20%C5%82%25%0A%22", "User-Agent": "Tidemark",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if n := len(strings.Fields(h.Get("webhook-signature"))); n != 2 {
			t.Errorf("there are %d signatures", n)
		}
	}
}

func TestBadSettingsAreNamedTogether(t *testing.T) {
	t.Parallel()
	_, err := New(Config{
		URL: "ftp://secret@x", Concurrency: -1, Timeout: -1,
		Headers: map[string]string{"Webhook-Id": "1", "a b": "c", "d": "e\r\nf: g"}, Proxy: "nowhere",
		Encoder: publisher.Encoder{Format: "xml"},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`url begins with "ftp://x"`, `proxy begins with`, "concurrency is -1", "timeout is -1ns",
		`"Webhook-Id" is the sink's own`, `"a b" has a name`, `"d" has a value`, `"xml"`,
		"no secrets to sign with",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	for url, want := range map[string]string{
		"http://169.254.169.254/": "169.254.169.254 is private",
		"http://[::ffff:7f00:1]/": "127.0.0.1 is private", "": "url is missing", "https://pass word@x": "url is not a URL",
	} {
		if _, err := New(Config{URL: url, Unsigned: true}); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "pass") {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
	}
}

// endless is a response body far longer than the sink reads. It counts the bytes that were read.
type endless struct{ read, closed int }

func (e *endless) Read(b []byte) (int, error) {
	if e.read > 100*answerBytes {
		return 0, io.EOF
	}
	e.read += len(b)
	return len(b), nil
}

func (e *endless) Close() error {
	e.closed++
	return nil
}

func TestOfABodyNoMoreIsReadThanIsBounded(t *testing.T) {
	t.Parallel()
	body := &endless{}
	if said := drain(body, func() {}); len(said) != saidBytes || body.closed != 1 || body.read > saidBytes+2*answerBytes {
		t.Errorf("%d bytes are repeated, %d were read, it was closed %d times", len(said), body.read, body.closed)
	}
}

// The event counts as delivered once the status is there. The sink does not wait for the end of the
// response.
func TestWhatComesAfterTheStatusIsNotAwaited(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := open(t, Config{URL: url, AllowNetworks: loopback(), Timeout: time.Hour})
	if err := s.Publish(ctx, []publisher.Event{of("a", 1)}); err != nil || ctx.Err() != nil {
		t.Errorf("got %v, %v", err, ctx.Err())
	}
}
