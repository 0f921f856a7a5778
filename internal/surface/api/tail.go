package api

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/notified"
	"github.com/tidemark-go/tidemark/internal/store/pages"
)

const (
	tailEvents = 500         // of a page
	tailBytes  = 8 << 20     // of pages that are kept, about
	tailPoll   = time.Second // between reads without a notification

	// tailRead is the time limit of a read, if that of the session is not shorter. All streams wait for it.
	tailRead = 3 * time.Second
)

// tail reads the end of the journal, below the writer floor, once for all streams. It keeps the latest
// pages. A stream that needs older ones reads for itself.
type tail struct {
	loop   notified.Loop
	looked time.Time // for erased events and another history; only steps use it, and patience

	patience *pages.Patience

	mu       sync.Mutex
	streams  int
	instance string // of the database that head and pages are from
	head     int64  // all events up to here were read, or are older than the tail; -1: there is none
	cache    pages.Cache
	news     chan struct{} // closed when head moves
}

func newTail(pool *pgxpool.Pool, logger *slog.Logger) *tail {
	t := &tail{head: -1, news: make(chan struct{}), patience: pages.NewPatience(tailRead)}
	t.loop = notified.Loop{Pool: pool, Logger: logger, Channel: lease.Channel, Step: t.step}
	return t
}

// join counts a stream until leave is called.
func (t *tail) join() (leave func()) {
	count := func(n int) {
		t.mu.Lock()
		t.streams += n
		t.mu.Unlock()
		t.loop.Poke()
	}
	count(1)
	return func() { count(-1) }
}

// step reads the next page. Without streams it forgets all.
func (t *tail) step(ctx context.Context, conn *pgx.Conn, payload string) (time.Duration, error) {
	if payload != "" {
		if err := lease.Awake(ctx, conn, payload); err != nil {
			return 0, err
		}
	}
	head, idle := t.begin()
	if idle {
		return 0, nil
	}
	began := time.Now()
	look := payload == "" || began.Sub(t.looked) >= tailPoll // others may notify without a pause
	head, mark, err := t.look(ctx, conn, head, look)
	if err != nil {
		return 0, err
	}
	instance := t.instance // only steps change it
	w, passed, err := t.read(ctx, conn, head)
	if err == nil && w.Instance != instance {
		err = feed.ErrReplaced
	}
	if errors.Is(err, feed.ErrReplaced) {
		t.replaced("")
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if look {
		t.cache.Forget(mark)
		t.looked = began
	}
	if t.head == w.Until {
		return tailPoll, nil
	}
	if !passed {
		t.cache.Add(&w.Page)
	}
	t.head = w.Until
	close(t.news)
	t.news = make(chan struct{})
	return 1, nil // at once, to ask for a notification where nothing follows
}

// begin returns the tail's end, -1 if it is to begin anew, and whether there are no streams.
func (t *tail) begin() (head int64, idle bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.streams == 0 {
		t.head = -1
	}
	if t.head < 0 {
		t.cache = pages.NewCache(tailBytes, tailEvents)
	}
	return t.head, t.streams == 0
}

// look looks, if it is time to, whether events were erased or the database is another instance. It returns the
// mark of erasures, and where to read: at the journal's end if the tail begins anew.
func (t *tail) look(ctx context.Context, conn *pgx.Conn, head int64, look bool) (_, mark int64, err error) {
	if look {
		if mark, err = feed.Erased(ctx, conn); err != nil {
			return 0, 0, err
		}
	}
	if look || head < 0 { // workers do the same, if there are any
		instance, err := ledger.KeepHistory(ctx, conn)
		if err != nil {
			return 0, 0, err
		}
		if instance != t.instance {
			t.replaced(instance)
			head = -1
		}
	}
	if head < 0 {
		head, err = feed.Floor(ctx, conn)
	}
	return head, mark, err
}

// read reads the next page. An event that takes long to read it passes, which it reports, with an empty page: a stream
// that sends the event reads it for itself, and the others do not wait for it.
func (t *tail) read(ctx context.Context, conn *pgx.Conn, head int64) (w *pages.Window, passed bool, err error) {
	events, limit := t.patience.Next(head, tailEvents)
	if limit > pages.Longer(tailRead) {
		t.patience.Done(head, nil)
		w, err = pages.Pass(ctx, conn, head)
		return w, true, err
	}
	bounded, cancel := context.WithTimeout(ctx, tailRead)
	defer cancel()
	w, err = pages.Read(bounded, conn, pages.Query{After: head, Events: events, Announce: 2 * tailPoll})
	if ctx.Err() == nil && t.patience.Done(head, err) {
		t.loop.Logger.WarnContext(ctx, "event streams wait: a read of the journal took too long, the next is of one event",
			"after", head, "events", events, "error", err)
	}
	return w, false, err
}

// replaced drops all that is from another instance of the database, and tells the streams.
func (t *tail) replaced(instance string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cache.Drop()
	t.instance, t.head = instance, -1
	close(t.news)
	t.news = make(chan struct{})
}

// now returns head, the instance of the database that it is from, and a channel that is closed when it moves.
func (t *tail) now() (head int64, instance string, news <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.head, t.instance, t.news
}

// noted counts bytes that a stream has noted about the events of a page.
func (t *tail) noted(page *pages.Page, bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cache.Noted(page, int64(bytes))
}

// after returns the page that continues after a position. It returns nil and a channel that is closed
// when there is news, or nil twice if the tail no longer has the page.
func (t *tail) after(instance string, position int64) (*pages.Page, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.instance != instance {
		return nil, nil
	}
	if page := t.cache.At(position); page != nil {
		kept := *page // later reads extend the page
		return &kept, nil
	}
	if position == t.head {
		return nil, t.news
	}
	return nil, nil
}
