package across

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/pkg/event"
)

const (
	placesMost = 500 // keys whose places a transaction writes beside those that it has events of
	unsaved    = 64  // windows without events of a key until its place is written, after saveEvery at the latest
)

// catchUp brings keys that are behind to the place, one window of the journal at a time, in turn
// with live events. The journal has no index by key: a window serves all keys that stand in it or
// just before it. Windows are read while live events are applied.
type catchUp struct {
	window   *window   // nil: none is read
	heavy    *window   // one that takes long to read, while others are read; nil: none
	nearest  bool      // the next window is that of the key nearest to the place, else of the farthest
	filed    time.Time // when places of keys without events were last written
	since    int       // windows since then
	failures int       // reads in a row
	again    time.Time // not read before
	opened   time.Time // when the window was
	lively   time.Time // when live events were last applied
}

// While live events come, keys that are behind have a part of the time: the next window of the journal is
// read yields times as long after one as that one took, and livelyUntil after it at the latest.
const (
	yields      = 3
	livelyUntil = time.Second // after the last live event, there are none
)

// window is a part of the journal that is read for keys that are behind.
type window struct {
	after, until int64
	events       []apply.Keyed // that the place takes
	mark         int64         // of the erasures before it was read
	err          error
	patient      bool          // it is read again with more time
	done         chan struct{} // closed once it is read
	cancel       context.CancelFunc
}

// drop ends the read of the window.
func (c *catchUp) drop() {
	if c.window != nil {
		c.window.drop()
		c.window = nil
	}
}

// dropAll ends the reads of all windows.
func (c *catchUp) dropAll() {
	c.drop()
	if c.heavy != nil {
		c.heavy.drop()
		c.heavy = nil
	}
}

func (w *window) drop() {
	w.cancel()
	<-w.done
}

// isRead reports whether the window is read, or its read has failed.
func (w *window) isRead() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// setAside lets other windows be read while one takes long. It comes back once it is read.
func (c *catchUp) setAside() {
	switch {
	case c.heavy != nil && c.window == nil && c.heavy.isRead():
		c.window, c.heavy = c.heavy, nil
	case c.heavy == nil && c.window != nil && c.window.patient && !c.window.isRead():
		c.window, c.heavy = nil, c.window
	}
}

// busy reports whether there are keys to try or to bring forward.
func (p *place) busy() bool { return len(p.failed) > 0 || len(p.probes) > 0 || len(p.behind) > 0 }

// catchUpStep tries a failed event, or applies a window if one is read. It reports whether it did.
func (p *place) catchUpStep(ctx context.Context) (worked bool, err error) {
	if err := p.lookForDue(ctx); err != nil {
		return false, err
	}
	if worked, err := p.probeNext(ctx); worked || err != nil {
		return worked, err
	}
	if len(p.behind) == 0 {
		p.dropAll()
		return false, nil
	}
	if p.setAside(); p.window == nil && time.Now().Before(p.again) {
		return false, nil
	}
	if p.window == nil {
		p.open(ctx)
	}
	w := p.window
	if w == nil || !w.isRead() {
		return false, nil
	}
	if err := w.err; err != nil {
		p.drop()
		slow, tooSlow := errors.AsType[*pages.SlowReadError](err)
		again := tooSlow && slow.Limit < pages.LongestRead // with more time
		if p.Draining && !again || errors.Is(err, ledger.ErrLost) || ctx.Err() != nil {
			return false, err
		}
		wait := p.Backoff(p.failures)
		p.failures, p.again = p.failures+1, time.Now().Add(wait)
		p.Cfg.Logger.WarnContext(ctx, "keys that are behind wait for a window of the journal", "projection", p.k.Name,
			"partition", p.part, "keys", len(p.behind), "after", w.after, "error", err, "wait", wait)
		return false, nil
	}
	if p.failures = 0; w.mark != p.source.mark() { // it may have events that are erased
		p.drop()
		return false, nil
	}
	return true, p.applyWindow(ctx, w)
}

// open begins to read the next window. A place that has a share of the time, or tries events alone,
// waits for it.
func (p *place) open(ctx context.Context) {
	after := int64(-1)
	for _, s := range p.behind {
		at := s.NextSeq - 1
		if p.heavy != nil && at == p.heavy.after {
			continue
		}
		if after < 0 || p.nearest && at > after || !p.nearest && at < after {
			after = at
		}
	}
	if p.nearest = !p.nearest; after < 0 { // all wait for the window that takes long
		return
	}
	p.opened = time.Now()
	w := &window{after: after, until: max(after, p.read), mark: p.source.mark(), done: make(chan struct{})}
	if p.heavy != nil && after < p.heavy.after {
		w.until = p.heavy.after
	}
	p.window = w
	events, limit := p.source.patience.Next(after, 2*p.Cfg.GroupEvents)
	w.patient = p.source.patience.Repeats(limit)
	limited, cancel := context.WithTimeout(ctx, limit)
	w.cancel = cancel
	single := p.marks > 0
	read := func() {
		defer close(w.done)
		defer cancel()
		if w.after < w.until {
			w.err = p.readWindow(limited, w, limit, events, single)
			if ctx.Err() == nil && p.source.patience.Done(after, w.err) {
				w.err = &pages.SlowReadError{After: after, Limit: limit, Err: w.err}
			}
		}
	}
	if w.after == w.until || single || p.building || p.Draining {
		read()
		return
	}
	p.source.ahead.Go(read)
}

// readWindow reads a window up to its end, or up to a limit, as of most events. With single it ends after the first
// event of a key that is behind: finding the key of a later one may end the process.
func (p *place) readWindow(
	ctx context.Context, w *window, limit time.Duration, most int, single bool,
) error {
	events, until, err := p.readJournal(ctx, event.Window{
		After: w.after, Floor: w.until, Events: most, Bytes: pages.Bytes,
	}, w.patient, limit)
	if err != nil {
		return err
	}
	faults, err := pages.Open(ctx, p.Cfg.Pool, p.Cfg.Catalogue, events)
	if err != nil {
		return err
	}
	var keyed []apply.Keyed
	for i := range events {
		e, ends := &events[i], false
		keyed = apply.AppendKeyed(keyed[:0], p.k, e, faults[e.Position])
		for _, one := range keyed {
			if p.takes(&one) {
				w.events = append(w.events, one)
				ends = ends || single && p.isBehind(&one)
			}
		}
		if ends {
			until = e.Position
			break
		}
	}
	w.until = until
	return nil
}

// isBehind reports whether a key that is behind lacks an event.
func (p *place) isBehind(one *apply.Keyed) bool {
	s := p.behind[one.Key]
	return s != nil && one.Event.Position >= s.NextSeq
}

// applyWindow applies the window's events of keys that are behind, up to a group, and moves the keys on.
func (p *place) applyWindow(ctx context.Context, w *window) error {
	var events, rest []apply.Keyed
	after, until := w.after, w.until
	for i, one := range w.events {
		if !p.isBehind(&one) || p.behind[one.Key].NextSeq <= after {
			continue
		}
		full := len(events) >= p.size || p.marks > 0 && len(events) > 0
		if full && events[len(events)-1].Event.Position != one.Event.Position {
			rest, until = w.events[i:], one.Event.Position-1
			break
		}
		events = append(events, one)
	}
	p.since++
	save := until >= p.read || p.since >= unsaved || time.Since(p.filed) >= saveEvery
	if len(events) > 0 || save {
		if err := p.forward(ctx, after, until, events, save); err != nil {
			p.drop()
			return err
		}
	}
	for _, s := range p.behind {
		if s.NextSeq > after {
			s.NextSeq = max(s.NextSeq, until+1)
		}
	}
	if w.after, w.events = until, rest; len(rest) == 0 {
		p.drop()
		if now := time.Now(); !p.building && !p.Draining && now.Sub(p.lively) < livelyUntil {
			p.again = now.Add(min(yields*now.Sub(p.opened), livelyUntil))
		}
	}
	return nil
}

// onward is a key that a transaction brings forward.
type onward struct {
	next failed.Standing
	ends bool // it is where the place is
}

// moves returns where the keys with events go, and with save up to placesMost others, and those that start over.
func (p *place) moves(after, until int64, with map[string]bool, save bool) (moves []onward, reset []string) {
	others := 0
	for key, s := range p.behind {
		if s.NextSeq <= after || !with[key] && (!save || others == placesMost) {
			continue
		}
		one := onward{next: *s}
		one.next.NextSeq = max(s.NextSeq, until+1)
		one.ends = one.next.NextSeq > p.read
		if s.Reset && (with[key] || one.ends) { // not before: readers would miss its rows
			reset, one.next.Reset = append(reset, key), false
		}
		if moves = append(moves, one); !with[key] {
			others++
		}
	}
	return moves, reset
}

// forward applies events between two positions, and brings their keys behind these. With save it
// does so for other keys too.
func (p *place) forward(ctx context.Context, after, until int64, events []apply.Keyed, save bool) error {
	with := map[string]bool{}
	for _, one := range events {
		with[one.Key] = true
	}
	stride := &apply.Stride{Projection: p.k, Events: events, Careful: p.careful > 0}
	var moves []onward
	moves, stride.Reset = p.moves(after, until, with, save)
	m := p.move(p.read)
	stride.Fence = func(batch *pgx.Batch, _ map[string]int64) { p.db.QueueApplied(batch, m) }
	stride.Finish = func(batch *pgx.Batch, held map[string]int64) {
		var moved, ended []failed.Standing
		for _, one := range moves {
			switch _, again := held[one.next.CampaignID]; {
			case again:
			case one.ends:
				ended = append(ended, one.next)
			default:
				moved = append(moved, one.next)
			}
		}
		if len(moved) > 0 {
			failed.Move(batch, moved)
		}
		if len(ended) > 0 {
			failed.Finish(batch, ended)
		}
	}
	held, err := p.stride(ctx, stride)
	if err != nil {
		p.size = max(1, p.size/4)
		return err
	}
	p.size = min(2*p.size, p.Cfg.GroupEvents)
	p.settle(m)
	p.hold(stride, held)
	if save {
		p.filed, p.since = time.Now(), 0
	}
	for _, one := range moves {
		key := one.next.CampaignID
		switch _, again := held[key]; {
		case again:
			delete(p.behind, key)
		case one.ends:
			delete(p.behind, key)
			delete(p.held, key)
		default:
			*p.behind[key], p.held[key] = one.next, one.next.NextSeq
		}
	}
	return nil
}
