package catalogue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// ErrWrappingKey is returned where a wrapping key cannot be used now: this program lacks it, has another one
// under its name, or its service is away. The text names the wrapping key, the subject's key that it was for, and the
// remedy.
var ErrWrappingKey = errors.New("a wrapping key cannot be used")

// ErrBrokenKey is returned for a subject's key that does not open with its wrapping key, and never will. The
// text names the key. A [Wrapper] returns it if it has the key's wrapping key and the key does not open.
var ErrBrokenKey = errors.New("a subject's key does not open")

// Sealer seals the personal fields of events with a key for each subject, and opens them. The keys are
// in tidemark.keys, wrapped by a [Wrapper]. Give it to a catalogue ([Catalogue.Sealed]), from which
// journals and projectors have it. It is for one database, and safe for concurrent use.
type Sealer struct {
	wrappers []Wrapper

	mu   sync.Mutex
	keys map[string]*dataKey // by id
	good map[string]bool     // wrapping keys that have opened a key, by name
	seen map[string]string   // hashes of the check values that wrapping keys have opened, by name
	mark int64               // of the last erasure that is known; keys of an older one are dropped
}

// mostKeys bounds the keys in memory.
const mostKeys = 10_000

// NewSealer returns a sealer. The first wrapper wraps new keys, all unwrap.
func NewSealer(wrappers ...Wrapper) (*Sealer, error) {
	if len(wrappers) == 0 {
		return nil, errors.New("a sealer needs a wrapping key")
	}
	names := map[string]bool{}
	for _, w := range wrappers {
		if reason := text.CheckName(w.Name(), text.MaxName); reason != "" || names[w.Name()] {
			return nil, fmt.Errorf("the name of a wrapping key %s", cmp.Or(reason, "is there twice: "+w.Name()))
		}
		names[w.Name()] = true
	}
	return &Sealer{
		wrappers: wrappers, keys: map[string]*dataKey{}, good: map[string]bool{}, seen: map[string]string{},
	}, nil
}

// Reading returns db for reads that open sealed fields, such as journal.ReadAll and journal.Load. A field whose key
// is deleted is absent, and [event.Event.Erased] reports it. A field that does not open ends a read with an
// error: it was moved or changed, or its key is broken.
func (s *Sealer) Reading(db event.Querier) event.Querier {
	return feed.Opening{Querier: db, Open: func(ctx context.Context, db event.Querier, events []event.Event) error {
		faults, err := s.open(ctx, db, events)
		for _, position := range slices.Sorted(maps.Keys(faults)) {
			return faults[position]
		}
		return err
	}}
}

// keep adds keys that were read when the mark was known. A later erasure moves it, so that [Sealer.find]
// drops them.
func (s *Sealer) keep(mark int64, keys map[string]*dataKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mark != mark {
		return
	}
	for id, key := range keys {
		for other := range s.keys {
			if len(s.keys) < mostKeys {
				break
			}
			delete(s.keys, other)
		}
		s.keys[id] = key
	}
}

// known returns the keys in memory among those with some ids, the rest of the ids, and the mark.
func (s *Sealer) known(ids []string) (found map[string]*dataKey, missing []string, mark int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, missing = map[string]*dataKey{}, []string{}
	for _, id := range ids {
		if key := s.keys[id]; key != nil {
			found[id] = key
		} else {
			missing = append(missing, id)
		}
	}
	return found, missing, s.mark
}

// forget drops all keys: events have been erased.
func (s *Sealer) forget(mark int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mark != mark {
		s.keys, s.mark = map[string]*dataKey{}, mark
	}
}

// Rotate wraps every key by the first wrapping key, some hundred in a statement, and returns how many it
// has changed. It can be interrupted and repeated, and runs beside appends and reads. Once it has returned
// 0 and no program wraps by another one, the other wrapping keys are not needed.
//
// A key that does not open, or whose wrapping key is not given, stays as it is. Rotate wraps the others, and
// then returns an error that names it. It returns [ErrWrappingKey], and changes nothing, if the first wrapping key
// is not the one that the database knows by that name.
func (s *Sealer) Rotate(ctx context.Context, db event.Querier) (rotated int64, err error) {
	if _, err = s.recognise(ctx, db, s.wrappers[0]); err != nil {
		return 0, err
	}
	var left error
	skipped := 0
	for after := uuid.Nil.String(); ; {
		found, err := db.Query(ctx, queryOldKeys, after, s.wrappers[0].Name(), rotateKeys)
		if err != nil {
			return rotated, err
		}
		old, err := pgx.CollectRows(found, scanKey)
		if err != nil || len(old) == 0 {
			return rotated, errors.Join(err, left)
		}
		var ids, by []string
		var wrapped [][]byte
		for i := range old {
			k := &old[i]
			plain, err := s.unwrapped(ctx, k)
			if after = k.id; errors.Is(err, ErrBrokenKey) || err != nil && !s.has(k.by) {
				if skipped++; skipped <= mostNamed {
					left = errors.Join(left, err)
				}
				continue
			}
			if err != nil {
				return rotated, err
			}
			again, err := s.wrappers[0].Wrap(ctx, plain, k.bound())
			if err != nil {
				return rotated, fmt.Errorf("wrap key %s: %w", k.id, err)
			}
			ids, by, wrapped = append(ids, k.id), append(by, k.by), append(wrapped, again)
		}
		if found, err = db.Query(ctx, queryRewrap, ids, by, wrapped, s.wrappers[0].Name()); err != nil {
			return rotated, err
		}
		n, err := pgx.CollectExactlyOneRow(found, pgx.RowTo[int64])
		if rotated += n; err != nil {
			return rotated, err
		}
	}
}

// has reports whether there is a wrapping key of that name.
func (s *Sealer) has(name string) bool {
	return slices.ContainsFunc(s.wrappers, func(w Wrapper) bool { return w.Name() == name })
}

// mostNamed is how many keys an error of [Sealer.Rotate] names.
const mostNamed = 10

// rotateKeys is how many keys one statement of [Sealer.Rotate] changes.
const rotateKeys = 200
