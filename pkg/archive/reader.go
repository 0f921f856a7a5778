package archive

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/singleflight"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Reader reads archived events for those who read the journal. It keeps the objects used last in memory.
// The first read by position copies the events of the objects that it needs, compressed, to a file in
// [os.TempDir]. The file is gone ten minutes after the last such read that found archived events, and with
// the process.
type Reader struct {
	store Store
	most  int64
	mu    sync.Mutex
	kept  []*object // used last at the end
	loads singleflight.Group

	spooling chan struct{} // whoever has filled it uses the spool
	spool    spool
}

// NewReader returns a reader that keeps objects of up to so many bytes in memory, and at least one.
// Default: 64 MiB.
func NewReader(store Store, bytes int64) *Reader {
	if bytes <= 0 {
		bytes = 64 << 20
	}
	return &Reader{store: store, most: bytes, spooling: make(chan struct{}, 1)}
}

// Reading returns db with reads of campaigns and by position that find archived events too.
func (r *Reader) Reading(db event.Querier) event.Querier {
	return feed.Through{Querier: db, Archive: r}
}

// Read implements [event.Archive]. Errors: [ErrObject], those of the store.
func (r *Reader) Read(
	ctx context.Context, s event.Stub, after, until int64, visit func(*event.Event) bool,
) error {
	o, err := r.object(ctx, s)
	if err != nil {
		return err
	}
	return o.read(s.CampaignID, after, until, visit)
}

// Search visits the lines of each object that may have events of some types, an object at a time. Lines
// of campaigns that were restored are among them. Errors: [ErrObject]; those of store, database and visit.
func Search(
	ctx context.Context, db event.Querier, store Store, types []string, visit func(object string, lines []byte) error,
) error {
	objects, err := rows.All(ctx, db, pgx.RowToStructByPos[event.Stub], "list objects", queryObjects, nil, types)
	for _, m := range objects {
		var o *object
		if o, err = load(ctx, store, m); err == nil {
			err = visit(o.name, o.text)
		}
		if err != nil {
			break
		}
	}
	return err
}

// object returns an object. Several readers share one load, which ends with the context of its first.
func (r *Reader) object(ctx context.Context, s event.Stub) (*object, error) {
	for {
		if o := r.inMemory(s.Object, s.SHA256); o != nil {
			return o, nil
		}
		ours := false
		loaded := r.loads.DoChan(s.Object+" "+s.SHA256, func() (any, error) {
			ours = true
			o, err := load(ctx, r.store, s)
			if err == nil {
				r.keep(o)
			}
			return o, err
		})
		select {
		case l := <-loaded:
			if ended := errors.Is(l.Err, context.Canceled) || errors.Is(l.Err, context.DeadlineExceeded); !ended || ours {
				return l.Val.(*object), l.Err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (r *Reader) inMemory(name, hash string) *object {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.kept, func(o *object) bool {
		return o.name == name && hex.EncodeToString(o.sha256[:]) == hash
	})
	if i < 0 {
		return nil
	}
	o := r.kept[i]
	r.kept = append(slices.Delete(r.kept, i, i+1), o)
	return o
}

// keep drops the objects that were used longest ago for another.
func (r *Reader) keep(o *object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append(r.kept, o)
	for bytes, i := int64(0), len(r.kept)-1; i >= 0; i-- {
		if bytes += int64(len(r.kept[i].text)); bytes > r.most && i < len(r.kept)-1 {
			r.kept = slices.Delete(r.kept, 0, i+1)
			return
		}
	}
}
