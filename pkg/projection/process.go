package projection

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Process is a projection across campaigns that keeps a state for each key, and reacts to events by
// appending others, to its own campaign or to another one, at once or at a time. The state, the place
// and the appends commit in one transaction; workers then make the appends, which hold no lock of a
// campaign meanwhile. So each reaction happens exactly once. Name, Version, Key, React, and On or Fold are
// required.
//
// A new process folds the events before it, and reacts only to later ones. A rebuild folds and does
// not react. An event at the end of a chain of 16 reactions is dead.
type Process[S any] struct {
	Name    string // also the table's, which holds the states as documents
	Version int    // from 1

	// Key returns the key of the state that an event changes; "": the event is not for the process.
	Key func(e event.Event) (string, error)

	// On changes the state, at first the zero S, by events of some types, one function for each. The functions
	// must depend only on their arguments. [Delete] deletes the state.
	On []Fold[S]

	// Fold changes the state by the events that On has no function for. With it, Types are the event types
	// that the process wants, nil for all; without it, they are those of On.
	Fold  func(state *S, e event.Event) error
	Types []string

	// React returns what to do about an event, given the state that it led to. It is called once in an
	// event's life, not when events are replayed, and must not change the state.
	React func(state *S, e event.Event) ([]Do, error)

	// From is the position after which a new process reacts; nil: the end of the journal when it is
	// registered. The events before it are folded.
	From *int64

	Partitions int // as in [Spec]

	// As in [Spec].
	OnFailure   Policy
	OnFailureOf map[string]Policy
	Classify    func(err error) Class
}

// Do is what a process does about an event: it appends events, or cancels a timer.
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

// document returns the states as documents.
func (p Process[S]) document() Document[S] {
	return Document[S]{
		Name: p.Name, Version: p.Version, Types: p.Types, Scope: ScopeJournal, Key: p.Key, Partitions: p.Partitions,
		On: p.On, Fold: p.Fold, OnFailure: p.OnFailure, OnFailureOf: p.OnFailureOf, Classify: p.Classify,
	}
}

// Get reads the state of a key, which may be behind the journal. found is false if there is none.
func (p Process[S]) Get(ctx context.Context, db event.Querier, key string) (state S, found bool, err error) {
	return p.document().Get(ctx, db, key)
}

// Spec implements [Projection]. Without KeyColumn a key cannot be replayed: the process would not
// know to which events it has reacted.
func (p Process[S]) Spec() Spec {
	spec := p.document().Spec()
	spec.KeyColumn = ""
	return spec
}

// Load implements [Loader].
func (p Process[S]) Load(ctx context.Context, g *Group) error { return p.prepared().Load(ctx, g) }

// Apply implements [Projection].
func (p Process[S]) Apply(ctx context.Context, g *Group) error { return p.prepared().Apply(ctx, g) }

func (p Process[S]) engine() engine { return p.prepared() }

func (p Process[S]) prepared() *process[S] {
	doc := p.document().prepared()
	doc.react = func(ctx context.Context, g *Group, key string, state *S, e *event.Event) error {
		todo, err := p.React(state, *e)
		if err != nil || len(todo) == 0 {
			return err
		}
		return g.react(ctx, p.Name, key, e, todo)
	}
	return &process[S]{doc, p}
}

// process applies a [Process].
type process[S any] struct {
	*document[S]
	of Process[S]
}

// Spec implements [Projection].
func (p *process[S]) Spec() Spec { return p.of.Spec() }

// Mistake returns what keeps the process from working.
func (p *process[S]) Mistake() error {
	switch {
	case p.of.Key == nil:
		return lacks(p.of.Name, "Key", "say which state an event is for")
	case p.of.React == nil:
		return lacks(p.of.Name, "React", "say what it does about an event, or make it a Document")
	}
	return p.document.Mistake()
}

// ReactsFrom returns the position after which the process reacts when it is new; nil: the end of the journal.
func (p *process[S]) ReactsFrom() *int64 { return p.of.From }

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
		doc, err := g.state.Reacting.Encode(ctx, querier{g}, do.Campaign, events)
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
		return nil, Permanent(fmt.Errorf("the timer %s of the key %s has a name of %d bytes, the limit is %d: "+
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

func (tooDeepError) FailureClass() Class { return ClassPermanent }

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
