package journal

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
)

// ErrWrappingKey is returned where a subject's key cannot be unwrapped. The text names the key, the
// wrapping key and the remedy.
var ErrWrappingKey = errors.New("a subject's key cannot be unwrapped")

// Sealer seals the personal fields of events with a key for each subject, and opens them. The keys are
// in tidemark.keys, wrapped by a [Wrapper]. Give it to a catalogue ([Catalogue.Sealed]), from which
// journals and projectors have it. It is for one database, and safe for concurrent use.
type Sealer struct {
	wrappers []Wrapper

	mu   sync.Mutex
	keys map[string]*dataKey // by id
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
		if reason := feed.CheckName(w.Name(), maxNameBytes); reason != "" || names[w.Name()] {
			return nil, fmt.Errorf("the name of a wrapping key %s", cmp.Or(reason, "is there twice: "+w.Name()))
		}
		names[w.Name()] = true
	}
	return &Sealer{wrappers: wrappers, keys: map[string]*dataKey{}}, nil
}

// Reading returns db for reads that open sealed fields, such as [ReadAll] and [Load]. A field whose key
// is deleted is absent, and [Event.Erased] reports it. A field that does not open ends a read with an
// error, because it was moved or changed.
func (s *Sealer) Reading(db Querier) Querier {
	return feed.Opening{Querier: db, Open: func(ctx context.Context, db Querier, events []Event) error {
		faults, err := s.open(ctx, db, events)
		for _, position := range slices.Sorted(maps.Keys(faults)) {
			return faults[position]
		}
		return err
	}}
}

// storedKey is a row of tidemark.keys.
type storedKey struct {
	id      string
	subject []byte // a hash
	wrapped []byte
	by      string   // name of the wrapping key
	found   bool     // it is in the table
	plain   *dataKey // nil: it must be unwrapped
}

// bound is what a wrapped key is bound to, so that it cannot stand in another's row.
func (k *storedKey) bound() []byte { return append([]byte(k.id), k.subject...) }

func (s *Sealer) unwrap(ctx context.Context, k *storedKey) (*dataKey, error) {
	plain, err := s.unwrapped(ctx, k)
	if err != nil {
		return nil, err
	}
	return newDataKey(k.id, plain)
}

func (s *Sealer) unwrapped(ctx context.Context, k *storedKey) ([]byte, error) {
	at := slices.IndexFunc(s.wrappers, func(w Wrapper) bool { return w.Name() == k.by })
	if at < 0 {
		return nil, detailing(ErrWrappingKey, "key %s is wrapped by the wrapping key %s, which this program does not have: "+
			"add it to its wrapping keys, after the first one", k.id, feed.Shortened(k.by))
	}
	plain, err := s.wrappers[at].Unwrap(ctx, k.wrapped, k.bound())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", detailing(ErrWrappingKey, "key %s does not open with the wrapping key %s: give the "+
			"one of that name that wrapped it", k.id, feed.Shortened(k.by)), err)
	}
	return plain, nil
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

// find returns the keys with some ids. One statement reads those that are not in memory, and tells of
// erasures since. Keys that are deleted are missing.
func (s *Sealer) find(ctx context.Context, db Querier, ids []string) (map[string]*dataKey, error) {
	found, missing, before := s.known(ids)
	mark, fresh, stored, err := readKeys(ctx, db, missing)
	if err == nil && mark != before {
		s.forget(mark)
		found, before = map[string]*dataKey{}, mark
		mark, fresh, stored, err = readKeys(ctx, db, ids)
	}
	if err != nil {
		return nil, err
	}
	read := map[string]*dataKey{}
	for i := range stored {
		if read[stored[i].id], err = s.unwrap(ctx, &stored[i]); err != nil {
			return nil, err
		}
	}
	maps.Copy(found, read)
	if fresh && mark == before {
		s.keep(mark, read)
	}
	return found, nil
}

// readKeys reads keys, and the mark of erasures. fresh: the snapshot is not older than the statement.
func readKeys(ctx context.Context, db Querier, ids []string) (mark int64, fresh bool, keys []storedKey, err error) {
	rows, err := db.Query(ctx, queryKeys, ids)
	if err == nil {
		var id, by *string
		var subject, wrapped []byte
		_, err = pgx.ForEachRow(rows, []any{&mark, &fresh, &id, &subject, &wrapped, &by}, func() error {
			if id != nil {
				keys = append(keys, storedKey{id: *id, subject: slices.Clone(subject), wrapped: slices.Clone(wrapped), by: *by})
			}
			return nil
		})
	}
	if err != nil {
		return 0, false, nil, fmt.Errorf("read the keys of sealed fields: %w", err)
	}
	return mark, fresh, keys, nil
}

// keysFor returns the keys of subjects, and creates those that are missing, in the transaction that
// appends. The database is always asked: a key in memory may be deleted. tx is of pgx or database/sql.
func (s *Sealer) keysFor(ctx context.Context, tx any, subjects []string) (map[string]*dataKey, error) {
	stored, missing := make([]storedKey, len(subjects)), []*storedKey{}
	all := make([]*storedKey, len(subjects))
	for i, subject := range subjects {
		hash := sha256.Sum256([]byte(subject))
		stored[i].subject, all[i] = hash[:], &stored[i]
	}
	_, _, before := s.known(nil)
	fresh, err := askKeys(ctx, tx, all)
	for _, k := range all {
		if err == nil && !k.found {
			missing, err = append(missing, k), s.create(ctx, k)
		}
	}
	if err == nil && len(missing) > 0 {
		fresh, err = askKeys(ctx, tx, missing)
	}
	if err != nil {
		return nil, fmt.Errorf("keys of subjects: %w", err)
	}
	keys, read := map[string]*dataKey{}, map[string]*dataKey{}
	for i, subject := range subjects {
		k := all[i]
		if !k.found {
			return nil, fmt.Errorf("the key %s was deleted while it was created: append again", k.id)
		}
		kept, _, _ := s.known([]string{k.id})
		if keys[subject] = cmp.Or(k.plain, kept[k.id]); keys[subject] == nil {
			if keys[subject], err = s.unwrap(ctx, k); err != nil {
				return nil, err
			}
		}
		read[k.id] = keys[subject]
	}
	if fresh {
		s.keep(before, read)
	}
	return keys, nil
}

// create makes a key, which the database takes unless the subject has one by then.
func (s *Sealer) create(ctx context.Context, k *storedKey) (err error) {
	plain := make([]byte, keyBytes)
	_, _ = rand.Read(plain)
	k.id, k.by = uuid.Must(uuid.NewV7()).String(), s.wrappers[0].Name()
	if k.wrapped, err = s.wrappers[0].Wrap(ctx, plain, k.bound()); err != nil {
		return fmt.Errorf("wrap a key by the wrapping key %s: %w", feed.Shortened(k.by), err)
	}
	k.plain, err = newDataKey(k.id, plain)
	return err
}

// askKeys reads the keys of subjects, after creating those that have an id. Keys of other transactions win.
func askKeys(ctx context.Context, tx any, keys []*storedKey) (fresh bool, err error) {
	type document struct {
		Subject string `json:"subject"`
		ID      string `json:"id,omitempty"`
		Wrapped []byte `json:"wrapped,omitempty"`
		By      string `json:"wrapped_by,omitempty"`
	}
	asked, bySubject := []document{}, map[string]*storedKey{}
	for _, k := range keys {
		subject := hex.EncodeToString(k.subject)
		asked, bySubject[subject] = append(asked, document{subject, k.id, k.wrapped, k.by}), k
	}
	encoded, _ := json.Marshal(asked) // strings cannot fail
	rows, err := ask(ctx, tx, querySubjectKeys, string(encoded))
	if err != nil {
		return false, err
	}
	for rows.Next() {
		var subject, id, wrapped, by string
		if err := rows.Scan(&subject, &id, &wrapped, &by, &fresh); err != nil {
			return false, errors.Join(err, rows.Close())
		}
		k := bySubject[subject]
		if k == nil {
			continue
		}
		if k.id != id {
			k.plain = nil
		}
		k.id, k.by, k.found = id, by, true
		k.wrapped, _ = base64.StdEncoding.DecodeString(wrapped) // one that is broken does not unwrap
	}
	return fresh, cmp.Or(rows.Err(), rows.Close())
}

// ask runs a statement in a transaction of pgx or database/sql.
func ask(ctx context.Context, tx any, query string, args ...any) (placeRows, error) {
	if tx, ok := tx.(*sql.Tx); ok {
		return tx.QueryContext(ctx, query, args...) //nolint:rowserrcheck // askKeys
	}
	db, ok := tx.(Querier)
	if !ok {
		return nil, errors.New("there is no transaction to create them in: use Journal.EncodeIn")
	}
	rows, err := db.Query(ctx, query, args...)
	return pgxRows{rows}, err
}

// Rotate wraps every key by the first wrapping key, some hundred in a statement, and returns how many it
// has changed. It can be interrupted and repeated, and runs beside appends and reads. Once it has returned
// 0 and no program wraps by another one, the other wrapping keys are not needed.
func (s *Sealer) Rotate(ctx context.Context, db Querier) (rotated int64, err error) {
	for after := uuid.Nil.String(); ; {
		rows, err := db.Query(ctx, queryOldKeys, after, s.wrappers[0].Name(), rotateKeys)
		if err != nil {
			return rotated, err
		}
		old, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k storedKey, err error) {
			return k, row.Scan(&k.id, &k.subject, &k.wrapped, &k.by)
		})
		if err != nil || len(old) == 0 {
			return rotated, err
		}
		var ids, by []string
		var wrapped [][]byte
		for i := range old {
			k := &old[i]
			plain, err := s.unwrapped(ctx, k)
			if err != nil {
				return rotated, err
			}
			again, err := s.wrappers[0].Wrap(ctx, plain, k.bound())
			if err != nil {
				return rotated, fmt.Errorf("wrap key %s: %w", k.id, err)
			}
			ids, by, wrapped, after = append(ids, k.id), append(by, k.by), append(wrapped, again), k.id
		}
		if rows, err = db.Query(ctx, queryRewrap, ids, by, wrapped, s.wrappers[0].Name()); err != nil {
			return rotated, err
		}
		n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
		if rotated += n; err != nil {
			return rotated, err
		}
	}
}

// rotateKeys is how many keys one statement of [Sealer.Rotate] changes.
const rotateKeys = 200
