package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// What some acts would do. Nothing is changed, nor written to the log.

// Removal is what would be removed.
type Removal struct {
	Group      string   `json:"group"`
	Projection *string  `json:"projection"` // null: the whole group
	Pairs      int64    `json:"pairs"`      // in which the projection is behind
	Tables     []string `json:"tables"`     // that would be dropped
}

// PreviewRemoval answers what [Acts.RemoveProjection] would remove. Errors: [rebuild.ErrUnknownProjection].
func (a *Acts) PreviewRemoval(ctx context.Context, name string, tables bool) (Removal, error) {
	p, err := registered(ctx, a.cfg.Pool, name)
	if err != nil {
		return Removal{}, err
	}
	out := Removal{Group: p.Group, Projection: &name, Tables: []string{}}
	if tables {
		for _, table := range p.Tables {
			out.Tables = append(out.Tables, p.Schema+"."+table)
		}
	}
	out.Pairs, err = deferred.Count(ctx, a.cfg.Pool, deferred.Filter{Group: p.Group, Projection: name})
	return out, err
}

// PreviewGroupRemoval answers what [Acts.RemoveGroup] would remove. Errors:
// [outbox.ErrNotRegistered], and [outbox.ErrInUse] for a group that has projections.
func (a *Acts) PreviewGroupRemoval(ctx context.Context, group string) (Removal, error) {
	if err := knownGroup(ctx, a.cfg.Pool, group); err != nil {
		return Removal{}, err
	}
	all, err := rebuild.Projections(ctx, a.cfg.Pool)
	if err != nil {
		return Removal{}, err
	}
	if i := slices.IndexFunc(all, func(p rebuild.Registered) bool { return p.Group == group }); i >= 0 {
		return Removal{}, fmt.Errorf("group %q has projection %q: %w", group, all[i].Name, outbox.ErrInUse)
	}
	return Removal{Group: group, Tables: []string{}}, nil
}

// Filing is how many pairs would be filed.
type Filing struct {
	Pairs int64 `json:"pairs"`
}

// PreviewReplay answers what a replay would file; no campaigns are all. Errors are those of [deferred.CountReplay].
func (a *Acts) PreviewReplay(ctx context.Context, replay deferred.ReplayRequest) (Filing, error) {
	if replay.Group == "" || replay.From < 0 {
		return Filing{}, fmt.Errorf("%w: name the group, and a seq of 1 or more, or 0 for from scratch", ErrInvalid)
	}
	n, err := deferred.CountReplay(ctx, a.cfg.Pool, replay)
	return Filing{n}, err
}

// PreviewBackfill answers what [Acts.StartBackfill] would file. Errors:
// [rebuild.ErrUnknownProjection], and those of [deferred.CountBackfill].
func (a *Acts) PreviewBackfill(ctx context.Context, projection string) (Filing, error) {
	p, err := registered(ctx, a.cfg.Pool, projection)
	if err != nil {
		return Filing{}, err
	}
	n, err := deferred.CountBackfill(ctx, a.cfg.Pool, p.Group, projection)
	return Filing{n}, err
}

// Slice is what of a campaign would be sent.
type Slice struct {
	From    int64  `json:"from"`
	Through int64  `json:"through"` // the last seq
	Events  *int64 `json:"events"`  // those of them that are the topic's; null: this process does not have the topic
}

// PreviewRepublication answers what [Acts.StartRepublication] would send, and reads all of it where this process has
// the topic and the publisher. Errors are its, and [journal.ErrNotFound] for a campaign without an event from there on.
func (a *Acts) PreviewRepublication(ctx context.Context, r Request, p Republication) (Slice, error) {
	if err := p.check(); err != nil {
		return Slice{}, err
	}
	if err := published(ctx, a.cfg.Pool, publications.Key{Topic: p.Topic, Publisher: p.Publisher}); err != nil {
		return Slice{}, err
	}
	last, err := journal.Last(ctx, a.cfg.Pool, p.CampaignID)
	if err == nil && last.Seq < p.From {
		err = fmt.Errorf("campaign %q from seq %d on: %w", p.CampaignID, p.From, journal.ErrNotFound)
	}
	found := Slice{From: p.From, Through: last.Seq}
	if p.Until != 0 {
		found.Through = min(p.Until, last.Seq)
	}
	topic := slices.IndexFunc(a.cfg.Topics, func(t publisher.Topic) bool { return t.Name == p.Topic })
	to := slices.IndexFunc(a.cfg.Publishers, func(q publisher.Publisher) bool { return q.Name == p.Publisher })
	if err != nil || topic < 0 || to < 0 {
		return found, err
	}
	counted, err := publisher.Replay(ctx, a.cfg.Pool, publisher.ReplayRequest{
		Topic: a.cfg.Topics[topic], To: a.cfg.Publishers[to], CampaignID: p.CampaignID, From: p.From, Until: p.Until,
		Catalogue: a.cfg.Catalogue, DryRun: true,
	}, r.publisher())
	found.Events, found.Through = &counted.Sent, counted.Through
	return found, err
}

// Gaps is how many gaps a group has, and the first ones: the event behind the checkpoint of each.
type Gaps struct {
	Count  int64  `json:"count"`
	Sample []Item `json:"sample"`
}

// PreviewRepair answers what [Acts.StartRepair] would repair, and looks at all of the journal for that. Errors:
// [outbox.ErrNotRegistered].
func (a *Acts) PreviewRepair(ctx context.Context, group string) (Gaps, error) {
	found := Gaps{Sample: []Item{}}
	if err := knownGroup(ctx, a.cfg.Pool, group); err != nil {
		return found, err
	}
	for after := ""; ; {
		some, next, err := outbox.Gaps(ctx, a.cfg.Pool, group, after, 0)
		if err != nil {
			return found, err
		}
		found.Count += int64(len(some))
		for _, g := range some[:min(len(some), sampleSize-len(found.Sample))] {
			found.Sample = append(found.Sample, Item{CampaignID: g.CampaignID, Subject: g.Group, Seq: g.Checkpoint + 1})
		}
		if after = next; next == "" {
			return found, nil
		}
	}
}
