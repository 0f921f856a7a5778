package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/boundary"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// httpStore is the journal behind the HTTP API of a running server.
type httpStore struct {
	url    string
	client *http.Client
}

// startServer runs the program on the test's own database until the test ends.
func startServer(t *testing.T) (httpStore, *pgxpool.Pool) {
	t.Helper()
	databaseURL := pgtest.UTF8(pgtest.URL(t))
	s, stop := startServerOn(t, databaseURL, false)
	t.Cleanup(stop)
	pool, err := pgxpool.New(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return s, pool
}

// startServerOn runs the program on a database, as main does, until stop is called.
func startServerOn(t *testing.T, databaseURL string, reset bool) (s httpStore, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := start(ctx, databaseURL, "127.0.0.1:0", reset, in)
		_ = in.Close() // cannot fail
		done <- err
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		cancel()
		t.Fatalf("the server says %q, %v, %v", line, err, <-done)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	return httpStore{url: address, client: &http.Client{Transport: transport}}, func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func (s httpStore) call(request *http.Request, into any) error {
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s: %s", response.Status, text)
	}
	return json.Unmarshal(text, into)
}

func asked(q event.Query) query {
	asked := query{Items: []item{}}
	for _, i := range q.Items {
		asked.Items = append(asked.Items, item{Types: i.Types, Tags: i.Tags})
	}
	return asked
}

func (s httpStore) Read(ctx context.Context, q event.Query) ([]event.Event, journal.Condition, error) {
	condition := journal.Condition{FailIfMatch: q}
	document, err := json.Marshal(asked(q))
	if err != nil {
		return nil, condition, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/read?query="+
		url.QueryEscape(string(document)), nil)
	if err != nil {
		return nil, condition, err
	}
	var stored []storedEvent
	if err := s.call(request, &stored); err != nil {
		return nil, condition, err
	}
	events := make([]event.Event, 0, len(stored))
	for _, e := range stored {
		events = append(events, event.Event{Type: e.Type, Tags: e.Tags, Payload: []byte(e.Data), Position: e.Position})
		condition.After = e.Position
	}
	return events, condition, nil
}

func (s httpStore) Append(ctx context.Context, events []event.Event, condition *journal.Condition) error {
	document := map[string]any{}
	list := make([]storedEvent, 0, len(events))
	for _, e := range events {
		list = append(list, storedEvent{Type: e.Type, Tags: e.Tags, Data: string(e.Payload)})
	}
	document["events"] = list
	if condition != nil {
		document["condition"] = map[string]any{"failIfEventsMatch": asked(condition.FailIfMatch), "after": condition.After}
	}
	body, err := json.Marshal(document)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/append", bytes.NewReader(body))
	if err != nil {
		return err
	}
	var a appendAnswer
	if err := s.call(request, &a); err != nil {
		return err
	}
	if a.AppendConditionFailed {
		return journal.ErrConditionFailed
	}
	return nil
}

func TestOracleAllowsWhatWasAllowedOverHTTP(t *testing.T) {
	t.Parallel()
	s, _ := startServer(t)
	boundary.Oracle(t, s)
}

func TestOracleASingleWriterOverHTTPIsRefusedWhatItShouldBe(t *testing.T) {
	t.Parallel()
	s, _ := startServer(t)
	boundary.SingleWriter(t, s)
}

func TestARegisterIsLinearizableOverHTTP(t *testing.T) {
	t.Parallel()
	s, _ := startServer(t)
	boundary.Register(t, s, nil)
}

func TestARegisterIsLinearizableOverHTTPWhileBackendsAreKilled(t *testing.T) {
	t.Parallel()
	s, pool := startServer(t)
	boundary.Register(t, s, func(ctx context.Context) { boundary.Kill(ctx, pool) })
}

// impatient is a store whose clients sometimes hang up before the response.
type impatient struct{ httpStore }

func (s impatient) Append(ctx context.Context, events []event.Event, condition *journal.Condition) error {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	if rand.IntN(3) == 0 {
		s.client = &http.Client{Transport: hangingUp{s.client.Transport, hangUp}}
	}
	return s.httpStore.Append(ctx, events, condition)
}

// hangingUp hangs up once the request is written.
type hangingUp struct {
	http.RoundTripper
	hangUp func()
}

func (h hangingUp) RoundTrip(r *http.Request) (*http.Response, error) {
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { h.hangUp() }}
	return h.RoundTripper.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}

func TestARegisterIsLinearizableOverHTTPWhileClientsHangUp(t *testing.T) {
	t.Parallel()
	s, _ := startServer(t)
	boundary.Register(t, impatient{s}, func(context.Context) {}) // the clients hang up by themselves
}
