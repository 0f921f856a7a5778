package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
	"github.com/tidemark-go/tidemark/pkg/event"
)

const (
	streamEvents = 100     // of one read of a stream that catches up
	streamBytes  = 1 << 20 // of one write, about
	catchingUp   = 2       // streams that read at once
	streamPassed = 1000    // positions without a wanted event, after which a stream tells its place
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
	After      string
}

// stream is one client's way through the journal. It sends the events that wants selects, in the order
// of their places: the seq in a campaign, else the position.
type stream struct {
	*API
	r      *http.Request
	wants  func(e *event.Event) bool
	query  event.Query // what it selects; no items: of a campaign, or all
	placed func(e *event.Event) int64
	list   func(ctx context.Context, l feed.List) (events []event.Event, more bool, err error) // after place
	resume func(ctx context.Context, after event.Cursor) (feed.Start, error)

	place    event.Cursor   // events up to here are sent or not wanted
	told     int64          // place that the client knows
	instance string         // of the database that it was read from; "": the place is still to be looked at
	single   int            // how many reads are of one event, because one of more has taken too long
	joined   bool           // it follows the tail
	looked   int64          // position in the tail; events up to here are sent or not wanted
	matching *feed.Matching // what it reads until it follows the tail; nil: of a campaign
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
					_, err := feed.Resume(r.Context(), a.cfg.Pool, event.Cursor{})
					if err == nil {
						_, _, err = s.list(r.Context(), feed.List{Events: 1, Bare: true})
					}
					return err
				})
			}
			if err != nil {
				a.fail(w, r, err)
				return
			}
			defer a.tail.join()()
			a.cfg.Stream(w, r, func(b *bytes.Buffer) (<-chan struct{}, error) {
				more, err := s.fill(b)
				if known, ok := operator.AnswerTo(err); ok {
					err = problem.New(known.Status, redact.Error(err), known.Remedy)
				}
				return more, err
			})
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
	s := &stream{API: a, r: r}
	field, after := fieldPlace, of.After
	if last := r.Header.Get(headerPlace); last != "" {
		field, after = headerPlace, last
	}
	if s.place, err = cursorOf(field, after); err != nil {
		return nil, err
	}
	if of.CampaignID != "" {
		s.wants = func(e *event.Event) bool { return e.CampaignID == of.CampaignID }
		s.placed = func(e *event.Event) int64 { return e.Seq }
		s.list = func(ctx context.Context, l feed.List) ([]event.Event, bool, error) {
			return feed.ListCampaign(ctx, a.cfg.Pool, of.CampaignID, s.place.Position+1, l)
		}
		s.resume = func(ctx context.Context, after event.Cursor) (feed.Start, error) {
			return feed.ResumeCampaign(ctx, a.cfg.Pool, of.CampaignID, after)
		}
		return s, nil
	}
	query := event.Query{Items: []event.Item{{Types: of.Types, Tags: of.Tags}}}
	wanted := query
	s.wants = func(e *event.Event) bool { return wanted.Matches(*e) }
	if len(of.Types)+len(of.Tags) > 0 { // it also reads notices of erasures
		s.query = wanted
		query.Items = append(slices.Clone(query.Items), event.Item{Types: []string{feed.Notice}})
	}
	s.placed = func(e *event.Event) int64 { return e.Position }
	s.matching = &feed.Matching{Query: query}
	s.list = s.listMatching
	s.resume = func(ctx context.Context, after event.Cursor) (feed.Start, error) {
		return feed.Resume(ctx, a.cfg.Pool, after)
	}
	return s, feed.CheckQuery(query)
}

// fill is a [Fill]. A stream reads for itself until it has caught up with the tail. What it reads then
// is complete up to where the tail was before, so no event is lost between the two. In another instance of
// the database it looks first whether its place still is what it was.
func (s *stream) fill(b *bytes.Buffer) (<-chan struct{}, error) {
	head, instance, news := s.tail.now()
	switch {
	case s.instance == "" || head >= 0 && s.instance != instance:
		return atOnce, s.apart(func() error { return s.enter(b) })
	case head < 0:
		return news, nil
	case !s.joined:
		return atOnce, s.apart(func() error { return s.catchUp(b, head) })
	}
	page, news := s.tail.after(instance, s.looked)
	if page == nil {
		if s.joined = news != nil; s.joined {
			return news, nil
		}
		return atOnce, nil
	}
	var notices pages.Notices
	if slices.ContainsFunc(page.Events, func(e event.Event) bool { return e.Type == feed.Notice }) {
		if err := s.apart(func() (err error) { notices, err = s.notices(page.Events); return err }); err != nil {
			return nil, err
		}
	}
	for i := range page.Events {
		e := &page.Events[i]
		if e.Position <= s.looked || !s.selects(e, notices) || s.placed(e) <= s.place.Position {
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
	if s.looked = page.Until; s.matching != nil {
		s.pass(b, s.looked)
	}
	return atOnce, nil
}

// enter takes the place into the present history. If the journal may have other events up to the place, it
// sends a reset, and goes on from where it does not.
func (s *stream) enter(b *bytes.Buffer) error {
	start, err := s.resume(s.r.Context(), s.place)
	if reset, ok := errors.AsType[*event.ResetError](err); ok {
		fmt.Fprintf(b, "event: reset\nid: %s\ndata: {\"after\":%q,\"was\":%q}\n\n", reset.Go, reset.Go, reset.Cursor)
		err = nil
	}
	if err == nil {
		s.place, s.instance, s.joined, s.looked = start.Cursor, start.Instance, false, 0
		if s.told = s.place.Position; s.matching != nil {
			s.matching.Floor = 0 // it may be another journal's
		}
	}
	return err
}

// listMatching reads the next window of positions. Others read between two windows.
func (s *stream) listMatching(ctx context.Context, l feed.List) (events []event.Event, more bool, err error) {
	m := s.matching
	if m.After = s.place.Position; m.Done() {
		m.Floor, err = feed.Floor(ctx, s.cfg.Pool)
	}
	if err == nil {
		events, err = m.Next(ctx, s.cfg.Pool, l)
	}
	return events, !m.Done(), err
}

func (s *stream) catchUp(b *bytes.Buffer, head int64) error {
	ctx := s.r.Context()
	if s.matching != nil { // the floor that it reads up to may be older
		s.matching.Floor = max(s.matching.Floor, head)
	}
	l := feed.List{Events: streamEvents, Bytes: streamBytes, Bare: !s.cfg.Payloads.Sees(auth.From(ctx))}
	if s.single > 0 {
		s.single--
		l.Events = 1
	}
	events, more, err := s.list(ctx, l)
	if feed.TimedOut(ctx, s.cfg.Pool, err) {
		if l.Events > 1 { // one of them may take that long: the others are sent
			s.single = streamEvents
			return nil
		}
		return problem.New(http.StatusServiceUnavailable, fmt.Sprintf("the event after %s takes longer to read than the "+
			"timeout of statements allows", s.place), "raise TIDEMARK_ADMIN_STATEMENT_TIMEOUT, or choose types or tags that "+
			"the event does not have")
	}
	if err == nil {
		var instance string
		if instance, err = feed.Instance(ctx, s.cfg.Pool); err == nil && instance != s.instance {
			s.instance = "" // some of the events may be another database's
			return nil
		}
	}
	var notices pages.Notices
	if err == nil {
		notices, err = s.notices(events)
	}
	for i := 0; i < len(events) && err == nil; i++ {
		if !s.selects(&events[i], notices) {
			s.place.Position = s.placed(&events[i])
			continue
		}
		var data []byte
		if data, err = s.encode(&events[i]); err == nil {
			s.send(b, &events[i], data)
		}
	}
	if err == nil && s.matching != nil {
		s.pass(b, s.matching.After)
	}
	if err == nil && !more {
		s.joined, s.looked = true, head
	}
	return err
}

// pass moves the place to a position up to which all is sent. Once that is far behind the last event,
// it tells the client: one that comes back goes on from there.
func (s *stream) pass(b *bytes.Buffer, position int64) {
	if s.place.Position = max(s.place.Position, position); s.place.Position >= s.told+streamPassed {
		s.told = s.place.Position
		fmt.Fprintf(b, "id: %s\n\n", s.place)
	}
}

// notices returns what the notices of erasures among events are about, if the stream selects events.
func (s *stream) notices(events []event.Event) (pages.Notices, error) {
	if len(s.query.Items) == 0 {
		return nil, nil
	}
	return pages.ReadNotices(s.r.Context(), s.cfg.Pool, nil, events, s.query.Items[0].Tags)
}

// selects reports whether the stream sends an event. It sends the notice of an erasure if it could have sent
// one of the erased events.
func (s *stream) selects(e *event.Event, notices pages.Notices) bool {
	kinds := notices[e.Position]
	if len(kinds) == 0 {
		return s.wants(e)
	}
	named := slices.Contains(s.query.Items[0].Types, e.Type)
	return slices.ContainsFunc(kinds, func(kind event.Event) bool {
		if named {
			kind.Type = e.Type
		}
		return s.query.Matches(kind)
	})
}

func (s *stream) encode(e *event.Event) ([]byte, error) {
	return json.Marshal(document.Of(s.event(s.r, *e)))
}

// encodedAs is an event as those see it who see payloads, or as the others do.
type encodedAs struct {
	position int64
	sees     bool
}

// encodedOnce encodes an event of the tail once for all streams.
func (s *stream) encodedOnce(page *pages.Page, e *event.Event) (data []byte, err error) {
	as := encodedAs{e.Position, s.cfg.Payloads.Sees(auth.From(s.r.Context()))}
	if known, there := page.Notes.Load(as); there {
		return known.([]byte), nil
	}
	if data, err = s.encode(e); err == nil {
		page.Notes.Store(as, data)
		s.tail.noted(page, len(data))
	}
	return data, err
}

func (s *stream) send(b *bytes.Buffer, e *event.Event, data []byte) {
	s.place.Position = s.placed(e)
	s.told = s.place.Position
	fmt.Fprintf(b, "id: %s\ndata: %s\n\n", s.place, data)
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
