package applies

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// poisonedOne is the share of poisoned keys: one of a hundred.
const poisonedOne = 100

var errPoisoned = errors.New("the event is poisoned")

// acrossPoison configures a projection across campaigns that can never apply one event of some keys.
type acrossPoison struct {
	workload harness.Workload
	calm     bool // it ignores the events of such a key from there on instead of failing
}

// stops reports whether an event is poisoned, and whether an earlier one of its key was. The poisoned
// events are spread over the journal.
func (p acrossPoison) stops(e *event.Event) (here, earlier bool, err error) {
	campaign, err := strconv.Atoi(e.CampaignID[len(e.CampaignID)-7:])
	if err != nil {
		return false, false, fmt.Errorf("read the number of campaign %s: %w", e.CampaignID, err)
	}
	key, before := p.workload.CharacterAt(campaign, e.Seq)
	if key%poisonedOne != 0 {
		return false, false, nil
	}
	at := key / poisonedOne * 7 % (p.workload.Total() / p.workload.Characters)
	return before == at, before > at, nil
}

// healthy returns how many events can be applied, and how many keys are poisoned.
func (p acrossPoison) healthy() (events, poisoned int, err error) {
	for i := range p.workload.Campaigns {
		for seq := range p.workload.Events {
			here, earlier, err := p.stops(&event.Event{CampaignID: harness.CampaignID(i), Seq: int64(seq + 1)})
			switch {
			case err != nil:
				return 0, 0, err
			case here:
				poisoned++
			case !earlier:
				events++
			}
		}
	}
	return events, poisoned, nil
}

// document fails in Fold.
func (p acrossPoison) document() harness.Kind {
	d := harness.AcrossDocument(1)
	fold := d.Fold
	d.Classify = func(error) projection.Class { return projection.ClassPermanent }
	d.Fold = func(c *harness.Character, e event.Event) error {
		switch here, earlier, err := p.stops(&e); {
		case err != nil:
			return err
		case here && !p.calm:
			return errPoisoned
		case here || earlier:
			return nil
		}
		return fold(c, e)
	}
	return harness.Kind{
		Name: "document", Count: harness.CountDocuments,
		Make: func() (projection.Projection, error) { return d, nil },
	}
}

// handler fails in the database, which refuses a NULL.
func (p acrossPoison) handler() harness.Kind {
	h := &projection.Handlers{
		Name: "characters", Version: 1, Tables: harness.CreateCharactersAcross, Scope: projection.ScopeJournal,
		Key: harness.CharacterOf,
		On: []projection.Handler{
			projection.Handle(harness.EventType, func(
				_ context.Context, g *projection.Group, e event.Event, d harness.DamageTaken,
			) error {
				switch here, earlier, err := p.stops(&e); {
				case err != nil:
					return err
				case here && !p.calm:
					g.Queue(harness.UpsertCharacterAcross, nil, d.Damage)
				case !here && !earlier:
					g.Queue(harness.UpsertCharacterAcross, d.CharacterID, d.Damage)
				}
				return nil
			}),
		},
	}
	return harness.Kind{
		Name: "Go handler", Count: harness.CountCharacters,
		Make: func() (projection.Projection, error) { return h, nil },
	}
}

// side lets a worker apply the journal and returns how many events it applied in a second.
func (p acrossPoison) side(
	b *harness.Bench, template *harness.Database, kind func(acrossPoison) harness.Kind,
) harness.Side {
	k, name := kind(p), "fails in 1 % of keys"
	if p.calm {
		name = "has nothing to do there"
	}
	return b.On(template, k.Name+" "+name, func(ctx context.Context, db *harness.Database) (float64, error) {
		want, stuck, err := p.healthy()
		if err != nil {
			return 0, err
		}
		if p.calm {
			stuck = 0
		}
		pool, err := db.Pool(ctx, acrossGroups().Connections+2)
		if err != nil {
			return 0, err
		}
		defer pool.Close()
		worker, err := acrossGroups().worker(ctx, pool, k, false)
		if err != nil {
			return 0, err
		}
		start := time.Now()
		if _, err := worker.Drain(ctx); err != nil {
			return 0, fmt.Errorf("drain: %w", err)
		}
		rate := float64(want) / time.Since(start).Seconds()
		return rate, errors.Join(harness.ExpectCount(ctx, pool, k.Count, want),
			harness.ExpectCount(ctx, pool, countStuck, stuck))
	})
}

// MeasureAcrossIsolation compares a projection across campaigns that fails in some keys with one that
// ignores the same events.
func MeasureAcrossIsolation(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	w := harness.Workload{Campaigns: b.Scaled(3000), Events: 100, Whole: true, Characters: b.Scaled(3000)}
	template, err := filledAcross(ctx, b, w)
	if err != nil {
		return nil, err
	}
	defer template.Drop(context.WithoutCancel(ctx))
	failing, calm := acrossPoison{workload: w}, acrossPoison{workload: w, calm: true}
	samples, err := b.Interleave(ctx, "events/s",
		failing.side(b, template, acrossPoison.document), calm.side(b, template, acrossPoison.document),
		failing.side(b, template, acrossPoison.handler), calm.side(b, template, acrossPoison.handler))
	if err != nil {
		return nil, err
	}
	var figures []harness.Figure
	for i, kind := range []string{"document", "go_handler"} {
		figures = append(figures, harness.AtLeast(0.9, harness.Figure{
			Name: "across_isolation_" + kind, Value: samples[2*i].Median(), Unit: "events/s",
			Ratio: samples[2*i].Over(samples[2*i+1]),
			To:    fmt.Sprintf("nothing to do where it fails, %d × %d events, %d keys", w.Campaigns, w.Events, w.Characters),
		}))
	}
	return figures, nil
}
