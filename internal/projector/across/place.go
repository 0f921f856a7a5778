package across

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/groupstate"
	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// saveEvery is the longest time that a place in memory is ahead of its row, while there is nothing
// that the projection wants.
const saveEvery = time.Second

// carefulAfter is how many groups are applied carefully after one in which an event has failed.
const carefulAfter = 8

// place is a partition that this process holds. One goroutine owns it.
type place struct {
	*Runner
	k          *registry.Projection
	key        publications.Key
	part       int
	parts      int
	building   bool // by a rebuild, which has a share of the time
	generation int64
	instance   string // of the database, as of the claim; all that follows is from it

	stands   int64                // position of the row
	read     int64                // events up to here are applied, held back or not wanted
	passed   int64                // events since the row was last written
	hash     int64                // of their ids
	held     map[string]int64     // keys that are behind, with the position of the next event
	leftOut  apply.LeftOut        // events that operators have resolved
	reacting *groupstate.Reacting // nil: it is no process, or its tables are not the live ones
	saved    time.Time
	careful  int  // groups still to be applied carefully
	size     int  // most events of a group
	turn     bool // of live events, not of keys that are behind
	due
	catchUp
	trial
}

// load reads what is held back. Whoever changes that from outside raises the generation.
func (p *place) load(ctx context.Context) error {
	keys, err := failed.Keys(ctx, p.Cfg.Pool, p.Cfg.ConsumerGroup, p.k.Name, mostKeys)
	if err != nil {
		return err
	}
	p.held, p.leftOut, p.behind = map[string]int64{}, apply.LeftOut{}, map[string]*failed.Standing{}
	for _, s := range keys {
		if p.mine(s.CampaignID) {
			p.held[s.CampaignID] = s.NextSeq
		}
	}
	err = failed.Resolved(ctx, p.Cfg.Pool, p.k.Name, func(key string, position int64) {
		p.leftOut.Add(p.k, key, position)
	})
	if _, reacts := kind.ReactsFrom(p.k.Projection); !reacts || err != nil || p.follows() {
		return err
	}
	after, err := p.db.Reacts(ctx, p.key)
	if after != nil {
		appends := journal.Journal{Catalogue: p.Cfg.Catalogue}
		p.reacting = &groupstate.Reacting{After: *after, Encode: appends.Encode}
	}
	return err
}

// mostKeys bounds the keys of a projection that may be behind.
const mostKeys = 1_000_000

// mine reports whether a key belongs to the partition.
func (p *place) mine(key string) bool {
	return apply.PartitionOf(key, p.parts) == p.part
}

// takes reports whether the place applies an event for a key, which may be another partition's. It empties
// one for an event that is left out.
func (p *place) takes(one *apply.Keyed) bool {
	if p.leftOut.Has(one.Key, one.Event.Position) {
		*one = apply.Keyed{}
		return false
	}
	if one.Event.Position == p.guilty {
		one.Fault = p.verdict
	}
	return p.mine(one.Key)
}

// run applies events until ctx ends or the place is lost. A group under way goes on until patient
// ends. A drain ends at the end of the journal, and with the first error.
func (p *place) run(ctx, patient context.Context) error {
	failures, loaded := 0, false
	defer p.source.leave(p)
	defer p.dropAll()
	defer p.dropProbes()
	for ctx.Err() == nil {
		loops.Of(ctx).Within(p.source.promise())
		var woken <-chan struct{}
		var err error
		if !loaded {
			err = p.load(patient)
			loaded = err == nil
		} else {
			p.throttle(ctx)
			start := time.Now()
			woken, err = p.step(patient)
			if p.building {
				p.Applier.Share.Charge(time.Since(start))
			}
		}
		switch {
		case err == nil && woken != nil && p.Draining:
			return nil
		case err == nil:
			if failures = 0; woken != nil {
				p.rest(ctx, woken)
			}
			continue
		case patient.Err() != nil:
			return nil
		case errors.Is(err, ledger.ErrLost):
			p.Metrics.Leases.Lost.WithLabelValues(registry.LostTakenOver).Inc()
			p.Cfg.Logger.WarnContext(ctx, "place lost, work dropped", "projection", p.k.Name, "partition", p.part,
				"generation", p.generation)
			return nil
		case repeats(err):
			continue
		case p.Draining && errors.Is(err, apply.ErrAside):
			return nil
		case p.Draining:
			return err
		}
		wait := p.Cfg.PollInterval
		if !errors.Is(err, apply.ErrAside) {
			wait = p.Backoff(failures)
			failures++
			p.Cfg.Logger.WarnContext(ctx, "projection across campaigns cannot go on", "projection", p.k.Name,
				"partition", p.part, "error", err, "wait", wait)
		}
		loops.Sleep(ctx, wait)
	}
	return nil
}

// repeats reports whether a read that took too long is repeated at once, with more time.
func repeats(err error) bool {
	slow, ok := errors.AsType[*pages.SlowReadError](err)
	return ok && slow.Limit < pages.LongestRead
}

// throttle waits until a rebuild may take time.
func (p *place) throttle(ctx context.Context) {
	for p.building && !p.Draining && ctx.Err() == nil {
		wait := p.Applier.Share.Wait(time.Now())
		if wait == 0 {
			return
		}
		loops.Of(ctx).Rest()
		loops.Sleep(ctx, wait)
	}
}

// rest waits until there may be something to do.
func (p *place) rest(ctx context.Context, woken <-chan struct{}) {
	wait := p.Cfg.PollInterval
	if p.passed > 0 || len(p.held) > 0 {
		wait = min(wait, saveEvery)
	}
	var read, heavy chan struct{}
	if p.heavy != nil {
		heavy = p.heavy.done
	}
	if p.window != nil {
		read = p.window.done
	} else if len(p.behind) > 0 && (heavy == nil || time.Now().Before(p.again)) {
		wait = max(0, min(wait, time.Until(p.again)))
	}
	loops.Of(ctx).Rest()
	select {
	case <-ctx.Done():
	case <-woken:
	case <-read:
	case <-heavy:
	case <-p.probed:
	case <-time.After(wait):
	}
}

// step applies the next group of live events, in turn with keys that are behind. It returns a channel
// that an append closes if there is nothing to do.
func (p *place) step(ctx context.Context) (woken <-chan struct{}, err error) {
	p.turn = !p.turn
	if !p.turn {
		if worked, err := p.catchUpStep(ctx); worked || err != nil {
			return nil, err
		}
	}
	woken, err = p.live(ctx)
	if err != nil || woken == nil {
		return nil, err
	}
	if p.turn {
		if worked, err := p.catchUpStep(ctx); worked || err != nil {
			return nil, err
		}
	}
	if p.Draining && p.busy() || !p.cursor.At.IsZero() {
		return nil, nil
	}
	return woken, nil
}

// live applies the next group of live events.
func (p *place) live(ctx context.Context) (woken <-chan struct{}, err error) {
	if _, all := p.held[projection.AllKeys]; all {
		p.source.leave(p)
		return make(chan struct{}), p.save(ctx)
	}
	follow := int64(math.MaxInt64)
	if p.follows() {
		live := publications.Key{Topic: p.k.Described.Name, Publisher: p.key.Publisher}
		if follow, err = p.db.Position(ctx, live); err != nil {
			return nil, err
		}
		if p.read >= follow {
			return make(chan struct{}), p.save(ctx)
		}
	}
	page, woken, err := p.source.next(ctx, p)
	if err != nil || page == nil {
		return woken, errors.Join(err, p.save(ctx))
	}
	return nil, p.apply(ctx, page, follow)
}

// follows reports whether the place belongs to other tables of a process than the live ones. They
// fold and do not react, so they must not pass those that react: a swap would lose reactions.
func (p *place) follows() bool {
	_, reacts := kind.ReactsFrom(p.k.Projection)
	return reacts && p.k.Name != p.k.Described.Name
}

// save writes the place if events were passed that the projection does not want.
func (p *place) save(ctx context.Context) error {
	if p.passed == 0 || time.Since(p.saved) < saveEvery && !p.Draining {
		return nil
	}
	m := p.move(p.read)
	if err := p.db.Apply(ctx, m); err != nil {
		return err
	}
	p.settle(m)
	return nil
}

func (p *place) move(to int64) ledger.Applied {
	return ledger.Applied{
		Key: p.key, Generation: p.generation, Instance: p.instance, From: p.stands, To: to, Events: p.passed, Hash: p.hash,
	}
}

func (p *place) settle(m ledger.Applied) {
	p.stands, p.passed, p.hash, p.saved = m.To, p.passed-m.Events, p.hash^m.Hash, time.Now()
}

// apply applies the next events that the projection wants, in one transaction. They are from the page,
// and from those behind it that are in memory.
func (p *place) apply(ctx context.Context, page *pages.Page, limit int64) error {
	g := gathered{events: make([]apply.Keyed, 0, min(p.size, len(page.Events)-page.Index(p.read))), until: p.read}
	for page != nil && g.until < limit && !g.full {
		p.gather(&g, page, limit)
		page = p.source.ready(ctx, p.instance, g.until)
	}
	if g.until == p.read {
		return errors.Join(p.save(ctx), apply.ErrAside)
	}
	if len(g.events) == 0 {
		p.read, p.passed, p.hash = g.until, p.passed+g.passed.n, p.hash^g.passed.hash
		return p.save(ctx)
	}
	stride := &apply.Stride{Projection: p.k, Events: g.events, Careful: p.careful > 0}
	var moved ledger.Applied
	stride.Fence = func(batch *pgx.Batch, held map[string]int64) {
		reached, on := g.until, g.passed
		if at, all := held[projection.AllKeys]; all { // it stops before the event
			reached, on = at-1, g.passedBelow(p.read, at)
		}
		moved = p.move(reached)
		moved.Events, moved.Hash = moved.Events+on.n, moved.Hash^on.hash
		p.db.QueueApplied(batch, moved)
	}
	held, err := p.stride(ctx, stride)
	if err != nil {
		p.size, p.careful = max(1, p.size/4), carefulAfter // perhaps the group took too long
		return err
	}
	p.read, p.stands, p.passed, p.hash, p.saved = moved.To, moved.To, 0, 0, time.Now()
	p.lively = p.saved
	p.hold(stride, held)
	p.size = min(2*p.size, p.Cfg.GroupEvents)
	return nil
}

// hold notes the keys that have failed. After a group in which savepoints had to find them, the next
// ones begin with savepoints.
func (p *place) hold(s *apply.Stride, held map[string]int64) {
	p.careful = max(0, p.careful-1)
	for key, at := range held {
		p.held[key] = at
		if s.Careful {
			p.careful = carefulAfter
		}
	}
}
