package kind

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Process is projector.Process.
type Process[S any] struct {
	Name    string   // also the table's, which holds the states as documents
	Version int      // from 1
	Types   []string // event types it wants; nil: all

	// Key returns the key of the state that an event changes; "": the event is not for the process.
	Key func(e event.Event) (string, error)

	Partitions int // as in [Spec]

	// Fold changes the state, at first the zero S, by the event. It must depend only on its arguments.
	// [Delete] deletes the state.
	Fold func(state *S, e event.Event) error

	// React returns what to do about an event, given the state that it led to. It is called once in an
	// event's life, not when events are replayed, and must not change the state.
	React func(state *S, e event.Event) ([]Do, error)

	// From is the position after which a new process reacts; nil: the end of the journal when it is
	// registered. The events before it are folded.
	From *int64

	// As in [Spec].
	OnFailure   Policy
	OnFailureOf map[string]Policy
	Classify    failure.Classifier
}

// Do is projector.Do.
type Do struct {
	Campaign string        // that gets Events
	Events   []event.Event // without ids, which follow from the cause
	At       time.Time     // when, by the database's clock; zero: at once

	// Timer is the name by which a later event of the same key can replace or cancel the append;
	// optional.
	Timer  string
	Cancel bool // cancel Timer, and append nothing

	// Expect is the seq at which the campaign must be; nil: any. If it is elsewhere, an event of the type
	// Refused is appended to it instead, with the fields type, expected and actual. Without Refused the
	// append fails: it is tried again, and operators see it.
	Expect  *int64
	Refused string
}

// NewProcess is projector.NewProcess.
func NewProcess[S any](p Process[S]) Projection {
	doc := newDocument(Document[S]{
		Name: p.Name, Version: p.Version, Types: p.Types, Scope: ScopeJournal, Key: p.Key, Partitions: p.Partitions,
		Fold: p.Fold, OnFailure: p.OnFailure, OnFailureOf: p.OnFailureOf, Classify: p.Classify,
	})
	doc.react = func(ctx context.Context, g *Group, key string, state *S, e *event.Event) error {
		todo, err := p.React(state, *e)
		if err != nil || len(todo) == 0 {
			return err
		}
		return g.react(ctx, p.Name, key, e, todo)
	}
	return process[S]{doc, p.From}
}

// Get reads the state of a key, which may be behind the journal. found is false if there is none.
func (p Process[S]) Get(ctx context.Context, db event.Querier, key string) (state S, found bool, err error) {
	return Document[S]{Name: p.Name, Scope: ScopeJournal, Key: p.Key}.Get(ctx, db, "", key)
}

type process[S any] struct {
	*document[S]
	from *int64
}

// Spec implements [Projection]. Without KeyColumn a key cannot be replayed: the process would not
// know to which events it has reacted.
func (p process[S]) Spec() Spec {
	spec := p.document.Spec()
	spec.KeyColumn = ""
	return spec
}

func (p process[S]) reactsFrom() *int64 { return p.from }

// ReactsFrom reports whether a projection is a process, and the position after which it reacts when
// it is new; nil: the end of the journal.
func ReactsFrom(p Projection) (from *int64, ok bool) {
	if r, ok := p.(interface{ reactsFrom() *int64 }); ok {
		return r.reactsFrom(), true
	}
	return nil, false
}

// Reacting lets a group's process react to events after a position.
type Reacting struct {
	After   int64
	Journal *journal.Journal
}

// React lets a group's process react.
func React(g *Group, r *Reacting) { g.reacting = r }

// reactions are what processes decided, one element an append or a cancelled timer.
type reactions struct {
	timers, campaigns, events, refused []*string
	dues                               []*time.Time
	expects                            []*int64
}

// react adds what a process does about an event.
func (g *Group) react(ctx context.Context, process, key string, e *event.Event, todo []Do) error {
	ctx = feed.WithReaction(ctx, e)
	for i, do := range todo {
		r := &g.reactions
		timer, err := timerName(process, key, do.Timer)
		if err != nil {
			return fmt.Errorf("reaction %d of process %s: %w", i, process, err)
		}
		if do.Cancel {
			if do.Timer == "" || len(do.Events) > 0 {
				return fmt.Errorf("reaction %d of process %s: it cancels without a timer, or has events: give it a timer alone",
					i, process)
			}
			r.add(timer, nil, nil, nil, nil, nil)
			continue
		}
		if depth := e.CausationDepth(); depth >= feed.MostDepth {
			return g.tooDeep(ctx, process, e, depth)
		}
		events := make([]event.Event, len(do.Events))
		for n := range do.Events {
			events[n] = do.Events[n]
			events[n].ID = uuid.NewSHA1(e.IdentityUUID(), fmt.Appendf(nil, "%s %d %d", process, i, n))
		}
		doc, err := g.reacting.Journal.EncodeIn(ctx, querier{g}, do.Campaign, events)
		if err != nil {
			return fmt.Errorf("reaction %d of process %s: %w", i, process, err)
		}
		due := do.At
		if due.IsZero() {
			due = e.RecordedAt
		}
		r.add(timer, &do.Campaign, &doc, &due, do.Expect, optional(do.Refused))
	}
	return nil
}

// querier runs statements between those of a group.
type querier struct{ g *Group }

func (q querier) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	tx, err := q.g.Tx(ctx)
	if err != nil {
		return nil, err
	}
	return tx.Query(ctx, sql, args...)
}

// mostTimerName is the longest name of a timer, in bytes: the index of timers takes no longer ones.
const mostTimerName = 2000

// timerName returns the name of a key's timer among those of all processes and keys; nil: none. The
// key's length tells where the key ends, since keys and timers may have any characters.
func timerName(process, key, timer string) (*string, error) {
	if timer == "" {
		return nil, nil
	}
	name := fmt.Sprintf("%s/%d:%s/%s", process, len(key), key, timer)
	if len(name) > mostTimerName {
		return nil, failure.Permanent(fmt.Errorf("the timer %s of the key %s has a name of %d bytes, the limit is %d: "+
			"use a shorter timer or key", text.Shortened(timer), text.Shortened(key), len(name), mostTimerName))
	}
	return &name, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (r *reactions) add(timer, campaign, events *string, due *time.Time, expect *int64, refused *string) {
	r.timers, r.campaigns, r.events = append(r.timers, timer), append(r.campaigns, campaign), append(r.events, events)
	r.dues, r.expects, r.refused = append(r.dues, due), append(r.expects, expect), append(r.refused, refused)
}

// queueReactions queues the group's reactions as one statement.
func (g *Group) queueReactions(process string) {
	if r := g.reactions; len(r.campaigns) > 0 {
		g.Queue(queryReact, process, r.timers, r.campaigns, r.dues, r.events, r.expects, r.refused)
		g.reactions = reactions{}
	}
}

// tooDeepError is permanent: the chain of causes does not get shorter.
type tooDeepError struct{ error }

func (tooDeepError) FailureClass() failure.Class { return failure.ClassPermanent }

// tooDeep returns the error of a chain of reactions that is too long, with the chain.
func (g *Group) tooDeep(ctx context.Context, process string, e *event.Event, depth int) error {
	tx, err := g.Tx(ctx)
	if err != nil {
		return err
	}
	chain := []string{e.Type}
	for cause := e.CausationID(); cause != "" && len(chain) <= feed.MostDepth; {
		campaign, id, err := event.ParseIdentity(cause)
		if err != nil {
			break
		}
		var eventType string
		var metadata []byte
		err = tx.QueryRow(ctx, queryCause, campaign, id.String()).Scan(&eventType, &metadata)
		if errors.Is(err, pgx.ErrNoRows) {
			break
		}
		if err != nil {
			return err
		}
		chain = append(chain, eventType)
		cause = (&event.Event{Metadata: metadata}).CausationID()
	}
	return tooDeepError{fmt.Errorf("process %s would react for the %dth time in a chain, the limit is %d; the causes, "+
		"newest first: %s. End the loop, then resolve the event", process, depth+1, feed.MostDepth,
		strings.Join(chain, " < "))}
}
