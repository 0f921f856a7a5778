package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

const (
	pageEvents   = 1000
	maxBodyBytes = 64 << 20
	campaigns    = 64 // that appends are spread over; the campaign does not matter here
)

type query struct {
	Items []item `json:"items"`
}

type item struct {
	Types []string `json:"types"`
	Tags  []string `json:"tags"`
}

func (q query) journal() event.Query {
	var items []event.Item
	for _, i := range q.Items {
		items = append(items, event.Item{Types: i.Types, Tags: i.Tags})
	}
	return event.Query{Items: items}
}

type options struct {
	From      int64 `json:"from"`  // inclusive; 0: from the first event, or from the last if backwards
	Limit     int   `json:"limit"` // 0: no limit
	Backwards bool  `json:"backwards"`
}

func (o options) check() error {
	for _, option := range []struct {
		name  string
		value int64
	}{{"from", o.From}, {"limit", int64(o.Limit)}} {
		if option.value < 0 {
			return fmt.Errorf("option %s is %d: it must be 0 or more; leave it out for all", option.name, option.value)
		}
	}
	return nil
}

type storedEvent struct {
	Type     string   `json:"type"`
	Tags     []string `json:"tags"`
	Data     string   `json:"data"`
	Position int64    `json:"position"`
}

type appendRequest struct {
	Events []struct {
		Type string   `json:"type"`
		Tags []string `json:"tags"`
		Data string   `json:"data"`
	} `json:"events"`
	Condition *struct {
		FailIfEventsMatch query `json:"failIfEventsMatch"`
		After             int64 `json:"after"`
	} `json:"condition"`
}

type appendAnswer struct {
	DurationInMicroseconds int64 `json:"durationInMicroseconds"`
	AppendConditionFailed  bool  `json:"appendConditionFailed"`
}

// stored is an event's payload. data may be any text.
type stored struct {
	Data string `json:"data"`
}

// server serves requests.
type server struct {
	pool *pgxpool.Pool

	// floor is the highest writer floor seen. Appends up to it have ended for good. A new reading
	// may be lower for a moment, even below an acknowledged append.
	floor atomic.Int64
}

func handler(pool *pgxpool.Pool) http.Handler {
	s := &server{pool: pool}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /read", func(w http.ResponseWriter, r *http.Request) {
		var q query
		var o options
		err := errors.Join(parameter(r, "query", &q), parameter(r, "options", &o))
		if err = errors.Join(err, o.check()); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		events, err := s.read(r.Context(), q.journal(), o)
		answer(w, events, err)
	})
	mux.HandleFunc("POST /append", func(w http.ResponseWriter, r *http.Request) {
		var request appendRequest
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBodyBytes)).Decode(&request); err != nil {
			http.Error(w, "the body: "+err.Error(), http.StatusBadRequest)
			return
		}
		start := time.Now()
		err := s.add(r.Context(), request)
		failed := errors.Is(err, journal.ErrConditionFailed)
		if failed {
			err = nil
		}
		answer(w, appendAnswer{DurationInMicroseconds: time.Since(start).Microseconds(), AppendConditionFailed: failed}, err)
	})
	return mux
}

// settled returns the highest writer floor seen.
func (s *server) settled(ctx context.Context) (int64, error) {
	floor, err := feed.Floor(ctx, s.pool)
	if err != nil {
		return 0, err
	}
	for {
		seen := s.floor.Load()
		if floor <= seen {
			return seen, nil
		}
		if s.floor.CompareAndSwap(seen, floor) {
			return floor, nil
		}
	}
}

// parameter reads a JSON parameter. Without the parameter it leaves into unchanged.
func parameter(r *http.Request, name string, into any) error {
	text := r.URL.Query().Get(name)
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("parameter %s: %w", name, err)
	}
	return nil
}

func answer(w http.ResponseWriter, document any, err error) {
	_, invalid := errors.AsType[*journal.InvalidEventError](err)
	switch {
	case invalid, errors.Is(err, event.ErrInvalidQuery), errors.Is(err, journal.ErrInvalidCondition):
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document) // the client may have gone
}

// read returns events up to the writer floor, which add has waited for.
func (s *server) read(ctx context.Context, q event.Query, o options) ([]storedEvent, error) {
	if err := feed.CheckQuery(q); err != nil {
		return nil, err
	}
	floor, err := s.settled(ctx)
	if err != nil {
		return nil, err
	}
	from, until, most := o.From, floor, o.Limit
	if o.Backwards {
		from = 0
		if o.From > 0 {
			until = min(floor, o.From)
		}
	}
	found := []storedEvent{}
	for o.Backwards || most == 0 || len(found) < most {
		page, err := feed.ReadMatches(ctx, s.pool, string(feed.AppendQuery(nil, q)), from-1, until, pageEvents)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			data, err := event.Decode[stored](e)
			if err != nil {
				return nil, err
			}
			found = append(found, storedEvent{
				Type: e.Type, Tags: append([]string{}, e.Tags...), Data: data.Data,
				Position: e.Position,
			})
			from = e.Position + 1
		}
		if o.Backwards && most > 0 && len(found) > most {
			found = slices.Clone(found[len(found)-most:])
		}
		if len(page) < pageEvents {
			break
		}
	}
	if o.Backwards {
		slices.Reverse(found)
	}
	if most > 0 && len(found) > most {
		found = found[:most]
	}
	return found, nil
}

// add appends, and returns once reads can see the events.
func (s *server) add(ctx context.Context, request appendRequest) error {
	if len(request.Events) == 0 {
		return &journal.InvalidEventError{Index: -1, Field: "events", Reason: "are none: append one at least"}
	}
	if request.Condition != nil && request.Condition.FailIfEventsMatch.Items == nil {
		return fmt.Errorf(`%w: the condition has no failIfEventsMatch.items: an empty array is every event`,
			event.ErrInvalidQuery)
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(strings.Join(request.Events[0].Tags, "\n"))) // never fails
	campaign := fmt.Sprintf("dcb-%d", hash.Sum32()%campaigns)
	events := make([]event.Event, 0, len(request.Events))
	for _, e := range request.Events {
		payload, err := json.Marshal(stored{e.Data})
		if err != nil {
			return err
		}
		slices.Sort(e.Tags)
		events = append(events, event.Event{
			CampaignID: campaign, Type: e.Type, Tags: slices.Compact(e.Tags),
			Payload: payload,
		})
	}
	var places []journal.Appended
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
		if request.Condition == nil {
			places, err = journal.Journal{}.Append(ctx, tx, campaign, journal.Any, events...)
			return err
		}
		condition := journal.Condition{
			FailIfMatch: request.Condition.FailIfEventsMatch.journal(),
			After:       request.Condition.After,
		}
		places, err = journal.Journal{}.AppendIf(ctx, tx, events, condition)
		return err
	})
	if err != nil {
		return err
	}
	return s.settle(ctx, places[len(places)-1].Position)
}

// settle waits until the writer floor has reached position, so that appends with lower positions
// have ended.
func (s *server) settle(ctx context.Context, position int64) error {
	for {
		floor, err := s.settled(ctx)
		if err != nil || floor >= position {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}
