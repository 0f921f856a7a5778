package tabletop

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Decision is the decision of a person at one table: one or more events of one campaign that belong
// in one transaction.
type Decision struct {
	CampaignID string
	Expect     journal.Expect // the campaign's version at the time of the decision
	Events     []event.Event
}

// GeneratorConfig configures a [Generator]. The zero value plays 1,000 tables with seed 0.
type GeneratorConfig struct {
	Seed      uint64    // the same seed gives the same decisions, to the last event id
	Campaigns int       // tables that play at once; zero: 1,000
	Start     time.Time // when the first event occurred; zero: 5 January 2024, 19:00 UTC
}

// Generator plays many campaigns at once and returns one decision after another.
//
// The choice of the next table follows Zipf's law: a few are busy all the time, most only now and
// then. A table whose campaign is archived begins another one. The memory of a Generator does not
// grow with the number of decisions. It is not safe for concurrent use.
type Generator struct {
	rng    *rand.Rand
	busy   *rand.Zipf
	moves  []move
	words  words
	prefix string
	now    time.Time
	begun  int     // campaigns begun so far
	tables []*game // busiest first; nil: nothing played yet
}

// The shape of Zipf's law: with 1,000 tables the busiest one takes about a tenth of the decisions.
const (
	zipfExponent = 1.1
	zipfOffset   = 2
)

// NewGenerator returns a generator with its tables set up.
func NewGenerator(config GeneratorConfig) *Generator {
	if config.Campaigns <= 0 {
		config.Campaigns = 1000
	}
	if config.Start.IsZero() {
		config.Start = time.Date(2024, time.January, 5, 19, 0, 0, 0, time.UTC)
	}
	rng := rand.New(rand.NewPCG(config.Seed, uint64(config.Campaigns)))
	return &Generator{
		rng:    rng,
		busy:   rand.NewZipf(rng, zipfExponent, zipfOffset, uint64(config.Campaigns-1)),
		moves:  moves(),
		words:  newWords(),
		prefix: "game-" + strconv.FormatUint(config.Seed, 36) + "-" + strconv.Itoa(config.Campaigns),
		now:    config.Start.UTC().Truncate(time.Millisecond),
		tables: make([]*game, config.Campaigns),
	}
}

// Next returns the next decision. There is always one.
func (g *Generator) Next() Decision {
	g.now = g.now.Add(time.Duration(1+g.rng.IntN(2000)) * time.Millisecond)
	table := g.busy.Uint64()
	playing := g.tables[table]
	if playing == nil || playing.status == Archived {
		begun := g.begin(g.tables[g.busy.Uint64()])
		g.tables[table] = begun.game
		return begun.decision()
	}
	t := &turn{Generator: g, game: playing, expect: playing.seq}
	t.play(g.choose(playing))
	return t.decision()
}

// begin creates a campaign. One in twelve is a fork of source, if source is in play.
func (g *Generator) begin(source *game) *turn {
	g.begun++
	t := &turn{Generator: g, game: &game{id: fmt.Sprintf("%s-%06d", g.prefix, g.begun)}}
	if source != nil && source.status != Archived && g.rng.IntN(12) == 0 {
		t.fork(source)
	} else {
		t.found()
	}
	return t
}

// choose draws one of the moves that the rules allow. Taking a note is always allowed.
func (g *Generator) choose(playing *game) move {
	total := 0
	for _, m := range g.moves {
		if m.allowed(playing) {
			total += m.weight
		}
	}
	draw := g.rng.IntN(total)
	for _, m := range g.moves {
		if !m.allowed(playing) {
			continue
		}
		if draw -= m.weight; draw < 0 {
			return m
		}
	}
	panic("tabletop: the weights of the allowed moves changed while one was drawn")
}

// turn is a decision in progress.
type turn struct {
	*Generator
	*game
	expect int64
	actor  string
	events []event.Event
}

func (t *turn) play(m move) {
	t.actor = t.people[0].id
	m.play(t)
}

func (t *turn) decision() Decision {
	return Decision{CampaignID: t.id, Expect: journal.Exactly(t.expect), Events: t.events}
}

// emit adds an event about an aggregate of the campaign.
func (t *turn) emit(eventType, aggregateType, aggregateID string, payload any) {
	encoded, err := json.Marshal(payload)
	if err != nil {
		panic(fmt.Sprintf("tabletop: payload of %s: %v", eventType, err)) // the payloads are structs of strings and numbers
	}
	event := event.Event{
		ID:            t.eventID(),
		Type:          eventType,
		AggregateType: aggregateType,
		AggregateID:   aggregateID,
		Actor:         t.actor,
		Payload:       encoded,
		OccurredAt:    t.now,
	}
	if t.session != "" {
		event.Tags = []string{"session=" + t.session}
	}
	t.seq++
	t.events = append(t.events, event)
}

// eventID draws a UUIDv7 (RFC 9562, section 5.7) from the generator's own clock and randomness, so
// that it repeats with the seed.
func (g *Generator) eventID() uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], uint64(g.now.UnixMilli())<<16|g.rng.Uint64()>>48)
	binary.BigEndian.PutUint64(id[8:], g.rng.Uint64())
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}
