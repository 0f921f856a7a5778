package projector

import (
	"context"

	"github.com/tidemark-go/tidemark/pkg/journal"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/pipeline"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/kind"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/registry"
)

// use queues that the statements that follow are about a projection's set of tables.
func (t *transaction) use(k *registry.Known) {
	t.useSchema(k.Path)
}

func (t *transaction) useSchema(path string) {
	if t.path != path {
		t.path = path
		t.At = pipeline.Origin{}
		t.Queue(registry.QuerySearchPath, path)
	}
}

// group makes a projection's group.
func (t *transaction) group(k *registry.Known, events []journal.Event) *Group {
	return kind.NewGroup(events, k.Name, k.Comment, t.Pipeline)
}

// applyAll hands every projection the events it wants of the units, as one group each.
func (t *transaction) applyAll(ctx context.Context) (err error) {
	defer func() { err = t.blame(err) }()
	groups, kinds := make([]*Group, 0, len(t.view.Projections)), make([]*registry.Known, 0, len(t.view.Projections))
	for _, k := range t.view.Projections {
		if err := t.resetRows(ctx, k, t.units); err != nil {
			return err
		}
		if t.calls[k] != "" {
			continue
		}
		events, err := t.wanted(k, t.units)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			continue
		}
		g := t.group(k, events)
		groups, kinds = append(groups, g), append(kinds, k)
		t.use(k)
		t.limitStatements(k.Timeout(events))
		if err := t.p.load(ctx, k, g); err != nil {
			return err
		}
	}
	if err := t.Flush(ctx); err != nil {
		return err
	}
	for i, g := range groups {
		k := kinds[i]
		t.use(k)
		t.limitStatements(k.Timeout(g.Events))
		if err := t.p.apply(ctx, k, g); err != nil {
			return err
		}
	}
	for _, k := range t.view.Projections {
		if t.calls[k] != "" {
			t.callFunction(k)
		}
	}
	t.useSchema(t.p.SearchPath)
	return nil
}

// wanted returns the events of the units that a projection is to apply, in order.
func (t *transaction) wanted(k *registry.Known, units []*unit) ([]journal.Event, error) {
	n, total := 0, 0
	for _, u := range units {
		total += len(u.events)
		if !t.applies(k, u) {
			continue
		}
		for i := range u.events {
			if !t.wants(k, &u.events[i]) {
				continue
			}
			if err := u.spoiled[u.events[i].Seq]; err != nil {
				return nil, k.Origin(u.events[i]).Wrap(err)
			}
			n++
		}
	}
	switch {
	case n == 0:
		return nil, nil
	case n == len(t.events) && total == n:
		return t.events, nil
	}
	wanted := make([]journal.Event, 0, n)
	for _, u := range units {
		if !t.applies(k, u) {
			continue
		}
		for i := range u.events {
			if t.wants(k, &u.events[i]) {
				wanted = append(wanted, u.events[i])
			}
		}
	}
	return wanted, nil
}

// applies says whether the unit brings the projection forward.
func (t *transaction) applies(k *registry.Known, u *unit) bool {
	if u.pair != nil {
		return u.pair.Projection == k.Name && !u.outdated
	}
	return t.view.Rows[k.Name].Moves() && t.pairs[u.lease.CampaignID][k.Name] == nil
}

// callFunction queues the call that applies the units' events.
func (t *transaction) callFunction(k *registry.Known) {
	var s stretches
	for _, u := range t.units {
		if u.count() > 0 && t.applies(k, u) {
			t.stretch(&s, k, u.lease.CampaignID, u.place, u.last())
		}
	}
	if len(s.campaigns) > 0 {
		t.use(k)
		t.limitStatements(registry.LongestTimeout([]*registry.Known{k}))
		t.At = pipeline.Origin{Projection: k.Name}
		t.Queue(t.calls[k], s.campaigns, s.after, s.until)
		t.At = pipeline.Origin{}
	}
}
