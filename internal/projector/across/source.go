package across

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/pages"
)

const (
	cacheBytes = 64 << 20
	readAhead  = 4 // pages behind the one that is asked for
	mostReads  = 2 // at once, beside those that are repeated with more time

	// the sizes of an [apply.Keyed] without its key, and of an int
	keyedBytes = 40
	endBytes   = 8

	readTimeout = 30 * time.Second // the minimum time limit of a first read
)

// source reads the journal page by page for all places of a process. It is safe for concurrent use.
type source struct {
	*registry.Base
	events   int // of a page
	patience *pages.Patience

	mu       sync.Mutex
	instance string // of the database that head and pages are from
	cache    pages.Cache
	readers  map[*place]int64 // up to where each has applied: pages that all have passed are dropped
	asked    int64            // after which a page was last asked for
	head     int64            // up to which the journal is known to be complete
	small    bool             // the last events were so small that a page's bytes need no limit
	reads    []*reading       // under way
	woken    chan struct{}    // closed by an append
	ahead    sync.WaitGroup
}

// reading is a read of a page.
type reading struct {
	after   int64
	events  int
	limit   time.Duration
	patient bool // it is repeated with more time: places that are elsewhere do not wait for it
	done    chan struct{}
}

// keys has the events of a page with their keys. The first of several partitions finds them.
type keys struct {
	mu sync.Mutex
	found
}

// found is the events of a page with their keys, once for each.
type found struct {
	keyed []apply.Keyed
	ends  []int // in keyed, by event of the page
	names int64 // bytes of the keys
}

// of returns event i of the page with its keys.
func (f *found) of(i int) []apply.Keyed {
	from := 0
	if i > 0 {
		from = f.ends[i-1]
	}
	return f.keyed[from:f.ends[i]]
}

// bytes is about the memory that they take.
func (f *found) bytes() int64 {
	return keyedBytes*int64(cap(f.keyed)) + endBytes*int64(cap(f.ends)) + f.names
}

// keyed returns the events of a page with their keys, and how many bytes it has noted on the page.
func keyed(k *registry.Projection, page *pages.Page) (_ found, noted int64) {
	known, _ := page.Notes.LoadOrStore(k, &keys{})
	all := known.(*keys)
	all.mu.Lock()
	defer all.mu.Unlock()
	before := all.bytes()
	for i := len(all.ends); i < len(page.Events); i++ { // a page may have been extended
		e, from := &page.Events[i], len(all.keyed)
		all.keyed = apply.AppendKeyed(all.keyed, k, e, page.Faults[e.Position])
		for _, one := range all.keyed[from:] {
			all.names += int64(len(one.Key))
		}
		all.ends = append(all.ends, len(all.keyed))
	}
	return all.found, all.bytes() - before
}

// keyed returns the events of a page with their keys. What it notes counts as part of the cache.
func (s *source) keyed(k *registry.Projection, page *pages.Page) found {
	all, noted := keyed(k, page)
	if noted > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cache.Noted(page, noted)
	}
	return all
}

func newSource(b *registry.Base) *source {
	events := max(2*b.Cfg.GroupEvents, 2000)
	return &source{
		Base: b, events: events, cache: pages.NewCache(cacheBytes, events), readers: map[*place]int64{},
		woken: make(chan struct{}), patience: pages.NewPatience(max(b.Cfg.LeaseTTL, readTimeout)),
	}
}

// wake ends the waits for events.
func (s *source) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.woken)
	s.woken = make(chan struct{})
}

// forget drops pages if events have been erased.
func (s *source) forget(mark int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cache.Forget(mark)
}

// mark tells which erasures there were. A page read before another one is not to be applied.
func (s *source) mark() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cache.Mark()
}

// promise is the longest that a step of a place takes with its reads.
func (s *source) promise() time.Duration { return s.Promises.Step + 2*s.patience.Longest() }

// replaced drops pages and head if they are from another instance of the database. So it does if the
// journal ends before the head, which it reports.
func (s *source) replaced(instance string, end int64) (shorter bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if shorter = s.instance == instance && end < s.head; shorter {
		s.instance = ""
	}
	s.enter(instance)
	return shorter
}

// enter drops what is from another instance of the database. The caller holds s.mu.
func (s *source) enter(instance string) {
	if s.instance != instance {
		s.cache.Drop()
		s.instance, s.head = instance, 0
	}
}

// next returns the page that continues where a place stands, of its instance of the database. If there are no
// events it returns nil, and a channel that an append closes. If the database is another instance it
// returns [ledger.ErrLost].
func (s *source) next(ctx context.Context, p *place) (*pages.Page, <-chan struct{}, error) {
	after := p.read
	for {
		s.mu.Lock()
		s.enter(p.instance)
		woken := s.woken
		s.readers[p] = after
		s.cache.Passed(s.slowest())
		if page := s.at(ctx, p.instance, after); page != nil {
			s.mu.Unlock()
			return page, nil, nil
		}
		if busy := s.inTheWay(after); busy != nil {
			s.mu.Unlock()
			loops.Of(ctx).Within(s.promise())
			select {
			case <-busy.done:
				continue
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
		}
		s.asked = after
		rd := s.begin(after)
		s.mu.Unlock()
		w, err := s.read(ctx, rd)
		if err != nil || w.Until == after {
			return nil, woken, err
		}
		return &w.Page, nil, nil
	}
}

// slowest returns up to where all readers have applied. The caller holds s.mu.
func (s *source) slowest() int64 {
	slowest := int64(math.MaxInt64)
	for _, position := range s.readers {
		slowest = min(slowest, position)
	}
	return slowest
}

// leave notes that a place reads no more for now.
func (s *source) leave(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.readers, p)
}

// inTheWay returns a read to wait for before a page is read: the one that may bring it, or the last that may be
// under way. The caller holds s.mu.
func (s *source) inTheWay(after int64) (busy *reading) {
	n := 0
	for _, rd := range s.reads {
		switch {
		case rd.after <= after && after-rd.after < int64(rd.events):
			return rd
		case !rd.patient:
			n++
			busy = rd
		}
	}
	if n < mostReads {
		return nil
	}
	return busy
}

// begin notes that a page is read. The caller holds s.mu.
func (s *source) begin(after int64) *reading {
	rd := &reading{after: after, done: make(chan struct{})}
	rd.events, rd.limit = s.patience.Next(after, s.events)
	rd.patient = s.patience.Repeats(rd.limit)
	s.reads = append(s.reads, rd)
	return rd
}

// ready returns the page that continues after a position if it is in memory.
func (s *source) ready(ctx context.Context, instance string, after int64) *pages.Page {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at(ctx, instance, after)
}

// at returns the page in memory that continues after a position, and reads ahead of it. The caller
// holds s.mu.
func (s *source) at(ctx context.Context, instance string, after int64) *pages.Page {
	page := s.cache.At(after)
	if page == nil || s.instance != instance {
		return nil
	}
	kept := *page // later reads extend the page in the cache
	kept.Faults = maps.Clone(page.Faults)
	s.asked = after
	s.readAhead(ctx, after)
	return &kept
}

// readAhead starts to read the page that follows those in memory, unless there are enough or the cache
// is full: a page that is read in vain drops one that is needed. The caller holds s.mu.
func (s *source) readAhead(ctx context.Context, after int64) {
	until, next := s.cache.Ahead(after, readAhead+1)
	if !next || until >= s.head || len(s.reads) > 0 {
		return
	}
	rd := s.begin(until)
	s.ahead.Go(func() { _, _ = s.read(ctx, rd) }) // a place that needs the page sees the error when it reads it
}

// read reads a page into the cache. It returns a [*pages.SlowReadError] if its time limit has ended it.
func (s *source) read(ctx context.Context, rd *reading) (w *pages.Window, err error) {
	s.mu.Lock()
	mark := s.cache.Mark()
	q := pages.Query{
		After: rd.after, Floor: s.head, Instance: s.instance, Events: rd.events, Small: s.small,
		Catalogue: s.Cfg.Catalogue, Archive: s.Cfg.Archive, Announce: 2*s.Cfg.PollInterval + time.Second,
	}
	if rd.patient {
		q.Limit = rd.limit
	}
	s.mu.Unlock()
	defer func() {
		if ctx.Err() == nil && s.patience.Done(rd.after, err) {
			err = &pages.SlowReadError{After: rd.after, Limit: rd.limit, Err: err}
			s.Cfg.Logger.WarnContext(ctx, "a read of the journal took too long, the next is of one event, with more time",
				"after", rd.after, "events", rd.events, "timeout", rd.limit, "error", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.small = false // it may have been too much for the time limit
		if err == nil && q.Instance == s.instance {
			s.head = max(s.head, w.Floor)
			s.small = 4*w.Payload()*int64(s.events) <= pages.Bytes*int64(len(w.Events))
			kept := w.Page
			kept.Faults = maps.Clone(w.Faults)
			if mark == s.cache.Mark() {
				s.cache.Add(&kept)
			}
		}
		close(rd.done)
		s.reads = slices.DeleteFunc(s.reads, func(other *reading) bool { return other == rd })
		if err == nil && w.Until > rd.after {
			s.readAhead(ctx, s.asked)
		}
	}()
	bounded, cancel := context.WithTimeout(ctx, rd.limit)
	defer cancel()
	conn, err := s.Cfg.Pool.Acquire(bounded)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	w, err = pages.Read(bounded, conn, q)
	if err == nil && w.Instance != q.Instance || errors.Is(err, feed.ErrReplaced) {
		return nil, ledger.ErrLost
	}
	return w, err
}
