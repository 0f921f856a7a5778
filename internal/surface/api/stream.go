package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

const (
	streamEvents = 100     // of one read of a stream that catches up
	streamBytes  = 1 << 20 // of one write, about
	catchingUp   = 2       // streams that read at once
	fieldPlace   = "after" // the place to begin after
	headerPlace  = "Last-Event-ID"
)

// Fill adds server-sent events to b. It returns a channel that is closed when there may be more. An
// error ends the stream.
type Fill func(b *bytes.Buffer) (more <-chan struct{}, err error)

type streamed struct {
	CampaignID string   `name:"campaign"`
	Types      []string `name:"type"`
	Tags       []string `name:"tag"`
	After      int64    `min:"0"`
}

// stream is one client's way through the journal. It sends the events that wants selects, in the order
// of their places: the seq in a campaign, else the position.
type stream struct {
	*API
	r      *http.Request
	wants  func(e *journal.Event) bool
	placed func(e *journal.Event) int64
	list   func(ctx context.Context, after int64, l feed.List) (events []journal.Event, more bool, err error)

	place  int64 // of the last event that was sent
	joined bool  // it follows the tail
	looked int64 // position in the tail; events up to here are sent or not wanted
}

// streamRoutes returns the streams of server-sent events. Their ids are places.
func (a *API) streamRoutes() []Route {
	route := func(path, id string) Route {
		ofCampaign := strings.Contains(path, "{campaign}")
		params := slices.DeleteFunc(param.Of(reflect.TypeFor[streamed]()), func(p param.Param) bool {
			return p.Name != fieldPlace && (p.Name == "campaign") != ofCampaign
		})
		route := forViewers(path, id, func(w http.ResponseWriter, r *http.Request) {
			s, err := a.stream(r, path, params)
			if err == nil { // before the stream begins, the database's errors have an answer
				err = s.apart(func() error {
					_, err := feed.Floor(r.Context(), a.cfg.Pool)
					return err
				})
			}
			if err != nil {
				a.fail(w, r, err)
				return
			}
			defer a.tail.join()()
			a.cfg.Stream(w, r, s.fill)
		})
		route.Streams = true
		return route
	}
	return []Route{
		route("/campaigns/{campaign}/events/stream", "streamCampaign"),
		route("/events/stream", "streamEvents"),
	}
}

func (a *API) stream(r *http.Request, path string, params []param.Param) (*stream, error) {
	in, err := input(r, path, params, func(params []param.Param, texts param.Texts) (any, error) {
		return param.Read(reflect.TypeFor[streamed](), params, texts)
	})
	if err != nil {
		return nil, err
	}
	of := in.(*streamed)
	s := &stream{API: a, r: r, place: of.After}
	if last := r.Header.Get(headerPlace); last != "" {
		if s.place, err = strconv.ParseInt(last, 10, 64); err != nil || s.place < 0 {
			return nil, param.Refuse(headerPlace, last, "0 or more", "this is no id of the stream", "send the last id unchanged")
		}
	}
	if of.CampaignID != "" {
		s.wants = func(e *journal.Event) bool { return e.CampaignID == of.CampaignID }
		s.placed = func(e *journal.Event) int64 { return e.Seq }
		s.list = func(ctx context.Context, after int64, l feed.List) ([]journal.Event, bool, error) {
			return feed.ListCampaign(ctx, a.cfg.Pool, of.CampaignID, after+1, l)
		}
		return s, nil
	}
	query := journal.Query{Items: []journal.Item{{Types: of.Types, Tags: of.Tags}}}
	s.wants = func(e *journal.Event) bool { return query.Matches(*e) }
	s.placed = func(e *journal.Event) int64 { return e.Position }
	s.list = func(ctx context.Context, after int64, l feed.List) ([]journal.Event, bool, error) {
		return feed.ListMatches(ctx, a.cfg.Pool, query, after+1, l)
	}
	return s, feed.CheckQuery(query)
}

// fill is a [Fill]. A stream reads for itself until it has caught up with the tail. What it reads then
// is complete up to where the tail was before, so no event is lost between the two.
func (s *stream) fill(b *bytes.Buffer) (<-chan struct{}, error) {
	if !s.joined {
		head, news := s.tail.now()
		if head < 0 {
			return news, nil
		}
		return atOnce, s.apart(func() error { return s.catchUp(b, head) })
	}
	page, news := s.tail.after(s.looked)
	if page == nil {
		if s.joined = news != nil; s.joined {
			return news, nil
		}
		return atOnce, nil
	}
	for i := range page.Events {
		e := &page.Events[i]
		if e.Position <= s.looked || !s.wants(e) || s.placed(e) <= s.place {
			continue
		}
		data, err := s.encodedOnce(page, e)
		if err != nil {
			return nil, err
		}
		s.send(b, e, data)
		if s.looked = e.Position; b.Len() >= streamBytes {
			return atOnce, nil
		}
	}
	s.looked = page.Until
	return atOnce, nil
}

func (s *stream) catchUp(b *bytes.Buffer, head int64) error {
	ctx := s.r.Context()
	bare := !s.cfg.Payloads.Sees(auth.From(ctx))
	events, more, err := s.list(ctx, s.place, feed.List{Events: streamEvents, Bytes: streamBytes, Bare: bare})
	for i := 0; i < len(events) && err == nil; i++ {
		var data []byte
		if data, err = s.encode(&events[i]); err == nil {
			s.send(b, &events[i], data)
		}
	}
	if err == nil && !more {
		s.joined, s.looked = true, head
	}
	return err
}

func (s *stream) encode(e *journal.Event) ([]byte, error) {
	return json.Marshal(document.Of(s.event(s.r, *e)))
}

// encodedAs is an event as those see it who see payloads, or as the others do.
type encodedAs struct {
	position int64
	sees     bool
}

// encodedOnce encodes an event of the tail once for all streams.
func (s *stream) encodedOnce(page *pages.Page, e *journal.Event) (data []byte, err error) {
	as := encodedAs{e.Position, s.cfg.Payloads.Sees(auth.From(s.r.Context()))}
	if known, there := page.Notes.Load(as); there {
		return known.([]byte), nil
	}
	if data, err = s.encode(e); err == nil {
		page.Notes.Store(as, data)
	}
	return data, err
}

func (s *stream) send(b *bytes.Buffer, e *journal.Event, data []byte) {
	s.place = s.placed(e)
	fmt.Fprintf(b, "id: %d\ndata: %s\n\n", s.place, data)
}

// apart runs do on another goroutine, so that an idle stream does not keep the stack that do needs. Few
// do so at once.
func (s *stream) apart(do func() error) error {
	select {
	case s.catching <- struct{}{}:
		defer func() { <-s.catching }()
	case <-s.r.Context().Done():
		return s.r.Context().Err()
	}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		done <- do()
	}()
	return <-done
}

// atOnce is closed: a stream has more to send.
var atOnce = func() <-chan struct{} { //nolint:gochecknoglobals // never written again
	c := make(chan struct{})
	close(c)
	return c
}()
