package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// served starts a server on the test's own database. post and get send requests to it.
func served(t *testing.T) (post, get func(string) string) {
	t.Helper()
	server := httptest.NewServer(handler(pgtest.New(t)))
	t.Cleanup(server.Close)
	ask := func(method, address, document string) string {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+address, strings.NewReader(document))
		if err != nil {
			return err.Error()
		}
		response, err := server.Client().Do(request)
		if err != nil {
			return err.Error()
		}
		text, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			return err.Error()
		}
		if response.StatusCode != http.StatusOK {
			return response.Status + " " + string(text)
		}
		return strings.TrimSpace(string(text))
	}
	post = func(document string) string { return ask(http.MethodPost, "/append", document) }
	get = func(parameters string) string {
		query, options, _ := strings.Cut(parameters, "&")
		address := "/read?query=" + url.QueryEscape(query)
		if options != "" {
			address += "&options=" + url.QueryEscape(options)
		}
		return ask(http.MethodGet, address, "")
	}
	return post, get
}

func failed(t *testing.T, answer string) bool {
	t.Helper()
	var a map[string]any
	if err := json.Unmarshal([]byte(answer), &a); err != nil || len(a) != 2 {
		t.Fatalf("answered %s", answer)
	}
	if _, ok := a["durationInMicroseconds"].(float64); !ok {
		t.Errorf("answered %s", answer)
	}
	return a["appendConditionFailed"] == true
}

func TestTheShapeThatCheckersExpect(t *testing.T) {
	t.Parallel()
	post, get := served(t)
	if failed(t,
		post(`{"events": [{"type": "A", "tags": ["x", "y"], "data": "one \u0007"}, {"type": "B", "tags": [], "data": "{}"}, {"type": "A", "tags": ["x"], "data": ""}]}`)) {
		t.Error("without a condition")
	}
	one, two, three := `{"type":"A","tags":["x","y"],"data":"one \u0007","position":1}`,
		`{"type":"B","tags":[],"data":"{}","position":2}`, `{"type":"A","tags":["x"],"data":"","position":3}`
	for ask, want := range map[string]string{
		`{"items":[]}`:                                         one + "," + two + "," + three,
		`{"items":[]}&{"from":2}`:                              two + "," + three,
		`{"items":[]}&{"from":2,"limit":1}`:                    two,
		`{"items":[]}&{"backwards":true,"limit":2}`:            three + "," + two,
		`{"items":[]}&{"backwards":true,"from":2}`:             two + "," + one,
		`{"items":[{"types":["A"],"tags":["x"]}]}`:             one + "," + three,
		`{"items":[{"tags":["y","x"]}]}`:                       one,
		`{"items":[{"types":["B"]},{"tags":["y"]}]}`:           one + "," + two,
		`{"items":[{"types":["C"]}]}&{"from":1,"limit":10}`:    "",
		`{"items":[{"types":["A","B"],"tags":[]}]}&{"from":3}`: three,
	} {
		if got := get(ask); got != "["+want+"]" {
			t.Errorf("%s: got %s, want [%s]", ask, got, want)
		}
	}
	event := `{"events": [{"type": "A", "tags": ["z"], "data": "d"}], "condition": {"failIfEventsMatch": {"items": [{"types": ["A"], "tags": ["x"]}]}`
	for after, want := range map[string]bool{"}}": true, `, "after": 2}}`: true, `, "after": 3}}`: false} {
		if got := failed(t, post(event+after)); got != want {
			t.Errorf("%s: failed %v", after, got)
		}
	}
}

func TestBadRequestsAreToldWhatIsWrong(t *testing.T) {
	t.Parallel()
	post, get := served(t)
	if failed(t, post(`{"events": [{"type": "A", "tags": ["x"], "data": ""}], "condition": null}`)) {
		t.Error("without a condition")
	}
	for document, want := range map[string]string{
		`{`:                                      "the body",
		`{"events": {}}`:                         "events",
		`{"events": []}`:                         "append one at least",
		`{"events": [{"type": "", "tags": []}]}`: "type",
		`{"events": [{"type": "A"}], "condition": {"failIfEventsMatch": {"items": [{"tags": [""]}]}}}`:                         "items[0].tags[0]",
		`{"events": [{"type": "A"}], "condition": {"after": 1}}`:                                                               "failIfEventsMatch.items",
		`{"events": [{"type": "A"}], "condition": {"failIfEventsMatch": {"item": [{"tags": ["x"]}]}}}`:                         "failIfEventsMatch.items",
		`{"events": [{"type": "A"}], "condition": {"failIfEventsMatch": {"items": [{"tags": ["x"]}]}, "after": 1000}}`:         "position 1000, the journal goes from 1 to",
		`{"events": [{"type": "A"}], "condition": {"failIfEventsMatch": {"items": [{"tags": ["x"]}]}, "after": -1}}`:           "position -1",
		`{"events": [{"type": "A"}], "condition": {"failIfEventsMatch": {"items": [{"tags": ["x"]}]}, "after": "the second"}}`: "after",
	} {
		if got := post(document); !strings.HasPrefix(got, "400") || !strings.Contains(got, want) {
			t.Errorf("%s: %s", document, got)
		}
	}
	for parameters, want := range map[string]string{
		`{"items":{}}`:                "parameter query",
		`{"items":[{"types":[""]}]}`:  "items[0].types[0]",
		`{"items":[]}&{"from":-1}`:    "from is -1",
		`{"items":[]}&{"limit":-1}`:   "limit is -1",
		`{"items":[]}&{"limit":"1"}`:  "parameter options",
		`{"items":[]}&{"backwards":1`: "parameter options",
	} {
		if got := get(parameters); !strings.HasPrefix(got, "400") || !strings.Contains(got, want) {
			t.Errorf("%s: %s", parameters, got)
		}
	}
	if got := get(`{"items":[]}`); strings.Count(got, "position") != 1 {
		t.Errorf("of all this there is %s", got)
	}
}

// The writer floor falls back for a moment when an append takes it late. Acknowledged events can be
// read all the same.
func TestReadsDoNotFallBackWithTheFloor(t *testing.T) {
	t.Parallel()
	s, pool := startServer(t)
	one := event.Event{Type: "A", Payload: []byte("{}")}
	if err := s.Append(t.Context(), []event.Event{one}, nil); err != nil {
		t.Fatal(err)
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		var floor int64
		if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock_shared(tidemark.lock_key(32001, 0))"); err != nil {
			return err
		}
		if err := tx.QueryRow(t.Context(), "SELECT tidemark.read_floor()").Scan(&floor); err != nil || floor != 0 {
			t.Errorf("the floor is %d, %v", floor, err)
		}
		events, _, err := s.Read(t.Context(), event.Query{})
		if len(events) != 1 {
			t.Errorf("%d events", len(events))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestResetBeginsWithNoEvents(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.UTF8(pgtest.URL(t))
	for _, c := range []struct {
		reset bool
		want  int
	}{{false, 0}, {false, 1}, {true, 0}} {
		s, stop := startServerOn(t, databaseURL, c.reset)
		events, _, err := s.Read(t.Context(), event.Query{})
		if err != nil || len(events) != c.want {
			t.Errorf("with reset %v: %d events, want %d, %v", c.reset, len(events), c.want, err)
		}
		if err := s.Append(t.Context(), []event.Event{{Type: "A", Payload: []byte("{}")}}, nil); err != nil {
			t.Error(err)
		}
		stop()
	}
}

func TestBackwardsReadsPageByPage(t *testing.T) {
	t.Parallel()
	s, _ := startServer(t)
	for range 3 {
		if err := s.Append(t.Context(), slices.Repeat([]event.Event{{Type: "A", Payload: []byte("{}")}}, pageEvents/2+1),
			nil); err != nil {
			t.Fatal(err)
		}
	}
	last := int64(3 * (pageEvents/2 + 1))
	for parameters, want := range map[string][]int64{
		`{"limit":2,"backwards":true}`:                           {last, last - 1},
		`{"limit":1,"backwards":true,"from":7}`:                  {7},
		fmt.Sprintf(`{"limit":1,"from":%d}`, last):               {last},
		fmt.Sprintf(`{"from":%d,"backwards":false}`, last-1):     {last - 1, last},
		fmt.Sprintf(`{"from":%d,"backwards":true}`, last+1000):   nil, // all events
		fmt.Sprintf(`{"from":%d,"backwards":false}`, last+1_000): {},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/read?options="+
			url.QueryEscape(parameters), nil)
		if err != nil {
			t.Fatal(err)
		}
		var stored []storedEvent
		if err := s.call(request, &stored); err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, e := range stored {
			got = append(got, e.Position)
		}
		if want == nil {
			if len(got) != int(last) || got[0] != last || got[last-1] != 1 {
				t.Errorf("%s: %d events", parameters, len(got))
			}
		} else if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", parameters, got, want)
		}
	}
}

func TestOneOfManyRequestsGetsTheName(t *testing.T) {
	t.Parallel()
	post, get := served(t)
	var got atomic.Int64
	var g errgroup.Group
	for range 20 {
		g.Go(func() error {
			answer := post(`{"events": [{"type": "Taken", "tags": ["name"], "data": ""}], "condition": {"failIfEventsMatch": {"items": [{"types": ["Taken"], "tags": ["name"]}]}}}`)
			if strings.Contains(answer, `"appendConditionFailed":false`) {
				got.Add(1)
				if !strings.Contains(get(`{"items":[{"tags":["name"]}]}`), "Taken") {
					t.Error("what has been answered is not there to read")
				}
			}
			return nil
		})
	}
	_ = g.Wait() // never fails
	if got.Load() != 1 {
		t.Errorf("%d got the name", got.Load())
	}
}
