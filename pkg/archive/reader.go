package archive

import (
	"context"
	"slices"
	"sync"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Reader reads archived events for those who read the journal. It keeps the objects used last in memory.
// The first read by position copies the events of the objects that it needs, compressed, to a file in
// [os.TempDir]. The file is gone ten minutes after the last such read, and with the process.
type Reader struct {
	store Store
	most  int64
	mu    sync.Mutex
	kept  []*kept // used last at the end

	spooling chan struct{} // whoever has filled it uses the spool
	spool    spool
}

// kept is an object in memory, or on its way there.
type kept struct {
	name, hash string
	ready      chan struct{}
	object     *object
	err        error
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
func (r *Reader) Reading(db journal.Querier) journal.Querier {
	return feed.Through{Querier: db, Archive: r}
}

// Read implements [journal.Archive]. Errors: [ErrObject], those of the store.
func (r *Reader) Read(
	ctx context.Context, s journal.Stub, after, until int64, visit func(*journal.Event) bool,
) error {
	o, err := r.object(ctx, s.Object, s.SHA256)
	if err != nil {
		return err
	}
	return o.read(s.CampaignID, after, until, visit)
}

func (r *Reader) object(ctx context.Context, name, hash string) (*object, error) {
	r.mu.Lock()
	i := slices.IndexFunc(r.kept, func(k *kept) bool { return k.name == name && k.hash == hash })
	if i >= 0 {
		k := r.kept[i]
		r.kept = append(slices.Delete(r.kept, i, i+1), k)
		r.mu.Unlock()
		select {
		case <-k.ready:
			return k.object, k.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	k := &kept{name: name, hash: hash, ready: make(chan struct{})}
	r.kept = append(r.kept, k)
	r.mu.Unlock()
	k.object, k.err = load(context.WithoutCancel(ctx), r.store, name, hash)
	close(k.ready)
	r.mu.Lock()
	defer r.mu.Unlock()
	if k.err != nil {
		r.kept = slices.DeleteFunc(r.kept, func(other *kept) bool { return other == k })
	}
	r.trim()
	return k.object, k.err
}

// trim drops the objects that were used longest ago.
func (r *Reader) trim() {
	var bytes int64
	for i := len(r.kept) - 1; i >= 0; i-- {
		select {
		case <-r.kept[i].ready:
			if r.kept[i].object == nil {
				continue
			}
			if bytes += r.kept[i].object.bytes; bytes > r.most && i < len(r.kept)-1 {
				r.kept = slices.Delete(r.kept, 0, i+1)
				return
			}
		default: // on its way
		}
	}
}
