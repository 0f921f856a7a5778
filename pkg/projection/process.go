package projection

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
// campaign meanwhile. So each reaction happens exactly once. Name, Version, Key and React are required.
//
// A new process folds the events before it, and reacts only to later ones. A rebuild folds and does
// not react. An event at the end of a chain of 16 reactions is dead.
type Process[S any] struct {
	Name    string // also the table's, which holds the states as documents
	Version int    // from 1

	// Key returns the key of the state that an event changes; "": the event is not for the process.
	Key func(e event.Event) (string, error)

	// On changes the state by events of some types: one [event.On] for each. Without it and Fold the state is
	// the zero S.
	On event.Folds[S]

	// Fold changes the state by the events that On has no function for; it may return [event.Delete]. With it,
	// Types are the event types that the process wants besides those of On and React, nil for all; without it,
	// they are those of On and React.
	Fold  func(state *S, e event.Event) error
	Types []string

	// React says what to do about events of some types: one [React] for each.
	React []Reaction[S]

	// From is the position after which a new process reacts; nil: the end of the journal when it is
	// registered. The events before it are folded.
	From *int64

	Partitions int // as in [Spec]

	// As in [Spec].
	OnFailure   Policy
	OnFailureOf map[string]Policy
	Classify    func(err error) Class
}

// Reaction is what a process does about events of one type. Make it with [React].
type Reaction[S any] struct {
	eventType string
	react     func(state *S, e event.Event) ([]Do, error)
}

// React has a function say what to do about an event of a type, given the state that the event led to. The
// payload is decoded into P (encoding/json). The function is called once in an event's life, not when events are
// replayed. It must depend only on its arguments, and change none.
func React[S, P any](
	eventType event.Type[P], react func(state *S, e event.Event, payload P) ([]Do, error),
) Reaction[S] {
	return Reaction[S]{string(eventType), func(state *S, e event.Event) ([]Do, error) {
		payload, err := event.Decode[P](e)
		if err != nil {
			return nil, err
		}
		return react(state, e, payload)
	}}
}

// Do is what a process does about an event: it appends events, or cancels a timer.
type Do struct {
	Campaign string        // that gets Events; "": the campaign of the event
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
	types := slices.Clone(p.Types)
	if p.Fold == nil || types != nil {
		for _, reaction := range p.React {
			types = append(types, reaction.eventType)
		}
	}
	return Document[S]{
		Name: p.Name, Version: p.Version, Types: types, Scope: ScopeJournal, Key: p.Key, Partitions: p.Partitions,
		On: p.On, Fold: p.Fold, OnFailure: p.OnFailure, OnFailureOf: p.OnFailureOf, Classify: p.Classify,
	}
}

// Get reads the state of a key, which may be behind the journal. found is false if there is none.
func (p Process[S]) Get(ctx context.Context, db event.Querier, key string) (state S, found bool, err error) {
	return p.document().Get(ctx, db, key)
}

// FoldByKey folds an event into states by their keys, as the process does. Decisions use it like
// [Document.FoldByKey].
func (p Process[S]) FoldByKey(states *map[string]S, e event.Event) error {
	return p.document().FoldByKey(states, e)
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
	of := &process[S]{p.document().prepared(), p, map[string]func(state *S, e event.Event) ([]Do, error){}}
	for _, reaction := range p.React {
		of.reactions[reaction.eventType] = reaction.react
	}
	of.react = func(ctx context.Context, g *Group, key string, state *S, e *event.Event) error {
		todo, err := of.ReactOne(state, *e)
		if err != nil || len(todo) == 0 {
			return err
		}
		return g.react(ctx, p.Name, key, e, todo)
	}
	return of
}

// process applies a [Process].
type process[S any] struct {
	*document[S]
	of        Process[S]
	reactions map[string]func(state *S, e event.Event) ([]Do, error) // by event type
}

// ReactOne returns what the process does about an event.
func (p *process[S]) ReactOne(state *S, e event.Event) ([]Do, error) {
	react := p.reactions[e.Type]
	if react == nil {
		return nil, nil
	}
	todo, err := react(state, e)
	for i := range todo {
		if todo[i].Campaign == "" && !todo[i].Cancel {
			todo[i].Campaign = e.CampaignID
		}
	}
	return todo, err
}

// Spec implements [Projection].
func (p *process[S]) Spec() Spec { return p.of.Spec() }

// Mistake returns what keeps the process from working.
func (p *process[S]) Mistake() error {
	switch {
	case p.of.Key == nil:
		return lacks(p.of.Name, "Key", "say which state an event is for")
	case len(p.of.React) == 0:
		return lacks(p.of.Name, "React", "say what it does about an event, or make it a Document")
	}
	given := map[string]bool{}
	for _, reaction := range p.of.React {
		switch {
		case reaction.eventType == "":
			return lacks(p.of.Name, "function for one of its reactions", "make reactions with projection.React")
		case given[reaction.eventType]:
			return twice(p.of.Name, reaction.eventType)
		}
		given[reaction.eventType] = true
	}
	if err := twiceOf(p.of.Name, p.of.On); err != nil || p.of.Fold != nil {
		return err
	}
	for _, eventType := range p.of.Types {
		if p.folds[eventType] == nil && !given[eventType] {
			return lacks(p.of.Name, fmt.Sprintf("function for events of the type %q", eventType),
				"add it to On, or give it Fold")
		}
	}
	return nil
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
