package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"

	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// fold applies the journal to the scratch tables of a projection across campaigns, in the order of
// position and page by page.
type fold struct {
	*scratch
	set     string                // whose skipped events are left out
	takes   func(key string) bool // nil: all keys
	places  []int64               // of the partitions; nil: no limit
	held    map[string]int64      // keys that stop before a position
	leftOut apply.LeftOut         // events that are resolved or skipped
	read    int64
	current []apply.Keyed // of the page
	culprit string        // the key for which an event failed
}

// keyColumn returns the column that has the keys of a projection across campaigns; "": none.
func keyColumn(k *registry.Projection) string {
	if _, process := kind.ReactsFrom(k.Projection); process {
		return "key"
	}
	return k.Described.KeyColumn
}

// openFold opens a scratch with a fold that has read nothing.
func (y *Replayer) openFold(ctx context.Context, k *registry.Projection, set string) (*fold, error) {
	s, err := y.openScratch(ctx, k)
	if err != nil {
		return nil, err
	}
	f := &fold{scratch: s, set: set}
	s.fold, s.skips = f, k.MaySkip()
	if err := failed.Resolved(ctx, s.Conn, set, f.leaveOut); err != nil {
		s.close(ctx)
		return nil, err
	}
	return f, nil
}

// leaveOut leaves out an event for a key.
func (f *fold) leaveOut(key string, position int64) { f.leftOut.Add(f.k, key, position) }

// to applies the events up to a position.
func (f *fold) to(ctx context.Context, until int64) error {
	for f.read < until {
		cfg := &f.Applier.Cfg
		if err := f.patiently(ctx); err != nil {
			return err
		}
		events, reached, err := feed.ReadWindow(ctx, f.journal(), event.Window{
			After: f.read, Floor: until, Events: cfg.GroupEvents, Bytes: cfg.GroupBytes,
			Careful: f.Applier.Unreadable.Load() > 0,
		})
		if err != nil {
			return f.Blame(f.Applier.SuspectUnreadable(err))
		}
		faults, err := pages.Open(ctx, f.Conn, cfg.Catalogue, events)
		if err != nil {
			return f.Blame(err)
		}
		group, err := f.wanted(ctx, events, faults)
		if err != nil {
			return err
		}
		u := &apply.Unit{Events: group.All}
		if f.Units = []*apply.Unit{u}; f.skips || f.k.Keys != nil && !f.tracing {
			err = f.applySkipping(ctx, u, group)
		} else {
			err = f.applyGroup(ctx, group)
		}
		if err != nil {
			return f.told(f.Blame(err))
		}
		f.since, f.applied, f.read = f.since+len(group.All), f.applied+len(group.All), reached
		if err := f.compact(ctx); err != nil {
			return err
		}
	}
	return nil
}

// wanted returns the events of a page that are to be applied, each for all its keys that reach it.
func (f *fold) wanted(ctx context.Context, page []event.Event, faults map[int64]error) (group kind.Events, err error) {
	f.current = f.current[:0]
	for i := range page {
		f.current = apply.AppendKeyed(f.current, f.k, &page[i], faults[page[i].Position])
	}
	f.current = slices.DeleteFunc(f.current, func(one apply.Keyed) bool { return !f.reaches(one.Key, one.Event.Position) })
	if f.k.MaySkip() {
		keys := slice.Of(f.current, func(one apply.Keyed) string { return one.Key })
		slices.Sort(keys)
		skipped, err := failed.Skipped(ctx, f.Conn, f.set, slices.Compact(keys))
		if err != nil {
			return group, err
		}
		f.leaveOutSkipped(skipped)
	}
	group.All = make([]event.Event, 0, len(f.current))
	for _, one := range f.current {
		switch {
		case f.leftOut.Has(one.Key, one.Event.Position), one.Fault != nil && f.k.Skips(one.Event.Type, one.Fault):
			continue
		case one.Fault != nil:
			f.Units, f.culprit = []*apply.Unit{{Events: page}}, one.Key
			return group, f.told(f.k.Origin(*one.Event).Wrap(one.Fault))
		}
		if group.All = append(group.All, *one.Event); f.k.Keys != nil {
			group.Keys = append(group.Keys, one.Key)
		}
	}
	return group, nil
}

// reaches reports whether a key is applied at a position.
func (f *fold) reaches(key string, position int64) bool {
	if f.takes != nil && !f.takes(key) || f.leftOut.Has(key, position) {
		return false
	}
	if at, held := f.held[key]; held && position >= at {
		return false
	}
	return f.places == nil || position <= f.places[apply.PartitionOf(key, len(f.places))]
}

// place returns the number by which an event is named: its seq, or its position across campaigns.
func (s *scratch) place(e *event.Event) int64 {
	if s.fold != nil {
		return e.Position
	}
	return e.Seq
}

// unit returns what the rows of a projection belong to.
func (s *scratch) unit() string {
	if s.fold != nil {
		return "key"
	}
	return "campaign"
}

// event returns a function that reads an event by that number.
func (s *scratch) event(ctx context.Context, campaignID string) func(int64) (event.Event, error) {
	return func(at int64) (event.Event, error) {
		if err := s.patiently(ctx); err != nil {
			return event.Event{}, err
		}
		if s.fold == nil {
			return journal.Get(ctx, s.journal(), campaignID, at)
		}
		return feed.At(ctx, s.journal(), at)
	}
}

// journal returns what reads events, archived ones too.
func (s *scratch) journal() feed.Through {
	return feed.Through{Querier: s.Conn, Archive: s.Applier.Cfg.Archive}
}

// chosen returns the rows to compare between two times: all, if they are those of one key.
func (s *scratch) chosen(ids []string) chosen {
	if s.fold != nil {
		return chosen{except: true}
	}
	return chosen{ids: ids}
}

// travelAcross is travel for a projection across campaigns: key chooses the events, unless it is
// [kind.AllKeys], and places are positions.
func (y *Replayer) travelAcross(
	ctx context.Context, k *registry.Projection, key string, visit func(*scratch, func(int64) error) error,
	places ...int64,
) error {
	floor, err := feed.Floor(ctx, y.Cfg.Pool) // not within a transaction of one snapshot
	if err != nil {
		return err
	}
	f, err := y.openFold(ctx, k, k.Described.Name)
	if err != nil {
		return err
	}
	defer f.close(ctx)
	f.head = floor
	if key != "" && key != projection.AllKeys {
		f.takes = func(other string) bool { return other == key }
	}
	return f.show(ctx, visit, "positions go up", places, func(at int64) error { return f.to(ctx, at) })
}

// sampling chooses up to n keys at random in one pass, all equally likely: those with the lowest
// hashes. A key that is chosen in the end was so from its first event on.
type sampling struct {
	n    int
	seed maphash.Seed
	keys []sampled // by hash
}

type sampled struct {
	hash uint64
	key  string
}

func (s *sampling) takes(key string) bool {
	one := sampled{maphash.String(s.seed, key), key}
	i, there := slices.BinarySearchFunc(s.keys, one, func(a, b sampled) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.key, b.key))
	})
	if there || i >= s.n {
		return there
	}
	s.keys = slices.Insert(s.keys, i, one)
	s.keys = s.keys[:min(len(s.keys), s.n)]
	return true
}

// verifyAcross verifies a projection across campaigns in one transaction, with one pass over the
// journal up to its places.
func (v *verification) verifyAcross(ctx context.Context) error {
	f, err := v.p.openFold(ctx, v.k, v.request.Projection)
	if err != nil {
		return err
	}
	defer f.close(ctx)
	again, err := v.stand(ctx, f)
	if err != nil {
		return err
	}
	column, r, compared := keyColumn(v.k), &v.request, chosen{ids: again, except: true}
	if column == "" && (!r.All || len(again) > 0) {
		return fmt.Errorf("%w: it names no column that has the key of a row (Spec.KeyColumn): verify all of it, once no key "+
			"is applied again from its first event", ErrNotVerifiable)
	}
	sample := &sampling{n: r.Sample, seed: maphash.MakeSeed()}
	switch {
	case r.Sample > 0:
		f.takes = func(key string) bool { return !slices.Contains(again, key) && sample.takes(key) }
	case !r.All:
		compared = chosen{ids: slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(r.Campaigns))),
			func(key string) bool { return slices.Contains(again, key) })}
		f.takes = func(key string) bool { _, there := slices.BinarySearch(compared.ids, key); return there }
	}
	for _, t := range f.tables {
		v.report.Tables = append(v.report.Tables, lookback.VerifiedTable{Table: t.Name})
	}
	found := &findings{passed: int64(len(again))}
	v.report.Campaigns += found.passed // settle takes them from those that were verified
	found.resolutions, err = failed.Resolutions(ctx, f.Conn, failed.ResolutionFilter{
		Projection: v.k.Described.Name, Limit: verifyShown,
	})
	if err != nil {
		return err
	}
	err = f.to(ctx, slices.Max(f.places))
	if errors.As(err, &found.failed) && !v.p.Infrastructure(ctx, err) && !v.outage(found.failed) {
		v.settle(found, []string{f.failedKey(found.failed)})
		return nil
	}
	if err != nil {
		return err
	}
	if err := errors.Join(f.untouched(ctx), f.unbounded(ctx)); err != nil {
		return err
	}
	if r.Sample > 0 {
		compared = chosen{ids: slice.Of(sample.keys, func(one sampled) string { return one.key })}
	}
	found.events = int64(f.applied)
	if err := v.compareWith(ctx, f.scratch, found, compared); err != nil {
		return err
	}
	if compared.except {
		compared.ids = nil
	}
	v.settle(found, compared.ids)
	return nil
}

// failedKey returns the key for which an event failed.
func (f *fold) failedKey(failed *projection.ApplyError) string {
	if f.culprit != "" {
		return f.culprit
	}
	i := slices.IndexFunc(f.current, func(one apply.Keyed) bool {
		return one.Event.CampaignID == failed.CampaignID && one.Event.Seq == failed.Seq
	})
	return f.current[max(i, 0)].Key
}

// stand limits a fold to where the tables stand. It returns the keys that are about to be applied
// again from their first event: where their rows stand is not known.
func (v *verification) stand(ctx context.Context, f *fold) (again []string, err error) {
	if err := v.still(ctx, f.Conn); err != nil {
		return nil, err
	}
	f.places, err = ledger.Positions(ctx, f.Conn, v.k.Name)
	if n := len(v.k.Places()); err == nil && len(f.places) != n {
		err = fmt.Errorf("%w: it has %d partitions, and %d here", registry.ErrRegistered, len(f.places), n)
	}
	if err != nil {
		return nil, err
	}
	keys, err := failed.Keys(ctx, f.Conn, v.p.Cfg.ConsumerGroup, v.k.Name, math.MaxInt32)
	f.held = make(map[string]int64, len(keys))
	for _, s := range keys {
		if f.held[s.CampaignID] = s.NextSeq; s.Reset {
			again = append(again, s.CampaignID)
		}
	}
	if err == nil && slices.Contains(again, projection.AllKeys) {
		err = fmt.Errorf("%w: it is about to be applied again from the first event, try again when it is", ErrNotVerifiable)
	}
	return again, err
}
