package catalogue

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// storedKey is a row of tidemark.keys.
type storedKey struct {
	id      string
	subject []byte // a hash
	wrapped []byte
	by      string   // name of the wrapping key
	check   string   // hash of the check value by which that was recognised
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
	key, err := newDataKey(k.id, plain)
	if err != nil || len(plain) != keyBytes {
		return nil, broken(k, fmt.Errorf("it has %d bytes", len(plain)))
	}
	return key, nil
}

func broken(k *storedKey, cause error) error {
	return fmt.Errorf("%w: %w", text.Detail(ErrBrokenKey, "key %s does not open with the wrapping key %s; if that is "+
		"the right one, an operator can delete the key with tidemark keys delete: what it has sealed is then erased", k.id,
		text.Shortened(k.by)), cause)
}

// unwrapTime is how long a wrapping key's service may take for one key, and how long a read asks one that fails.
const unwrapTime = 5 * time.Second

func (s *Sealer) unwrapped(ctx context.Context, k *storedKey) ([]byte, error) {
	at := slices.IndexFunc(s.wrappers, func(w Wrapper) bool { return w.Name() == k.by })
	if at < 0 {
		return nil, text.Detail(ErrWrappingKey, "key %s is wrapped by the wrapping key %s, which this program does not "+
			"have: add it to its wrapping keys, after the first one", k.id, text.Shortened(k.by))
	}
	bounded, cancel := context.WithTimeout(ctx, unwrapTime)
	defer cancel()
	plain, err := s.wrappers[at].Unwrap(bounded, k.wrapped, k.bound())
	switch {
	case errors.Is(err, ErrBrokenKey):
		return nil, broken(k, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", text.Detail(ErrWrappingKey, "key %s cannot be opened with the wrapping key %s now",
			k.id, text.Shortened(k.by)), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.good[k.by] = true
	return plain, nil
}

// judge tells a broken key from a wrapping key that is another one under the same name: if there are other
// keys and it opens none of them, it is not the key that is at fault.
func (s *Sealer) judge(ctx context.Context, db event.Querier, k *storedKey, cause error) error {
	s.mu.Lock()
	good := s.good[k.by]
	s.mu.Unlock()
	if good || !errors.Is(cause, ErrBrokenKey) {
		return cause
	}
	some, may, err := someKeys(ctx, db, k.by, k.id)
	switch {
	case err != nil || len(some) == 0 && may:
		return cause
	case !may: // an appender has the check value alone
		if err := s.compare(ctx, db, k.by); err != nil {
			return err
		}
		return cause
	case s.opensNone(ctx, some):
		return text.Detail(ErrWrappingKey, "key %s does not open with the wrapping key %s, nor does any other: give the "+
			"one of that name that wrapped them", k.id, text.Shortened(k.by))
	}
	return cause
}

// opensNone reports whether none of the keys opens, and each is broken.
func (s *Sealer) opensNone(ctx context.Context, some []storedKey) bool {
	return !slices.ContainsFunc(some, func(k storedKey) bool {
		_, err := s.unwrapped(ctx, &k)
		return !errors.Is(err, ErrBrokenKey)
	})
}

// someKeys reads some keys of a wrapping key, but one. It asks for the right first: an error would end the
// transaction of an appender, who has none.
func someKeys(ctx context.Context, db event.Querier, name, but string) (some []storedKey, may bool, err error) {
	var found storedKey
	err = visit(ctx, db, []any{&may}, func() {}, queryMayReadKeys)
	if err != nil || !may {
		return nil, false, err
	}
	err = visit(ctx, db, []any{&found.id, &found.subject, &found.wrapped, &found.by}, func() {
		some = append(some, storedKey{
			id: found.id, subject: slices.Clone(found.subject), wrapped: slices.Clone(found.wrapped), by: found.by,
		})
	}, querySomeKeys, name, but)
	return some, true, err
}

func scanKey(row pgx.CollectableRow) (k storedKey, err error) {
	return k, row.Scan(&k.id, &k.subject, &k.wrapped, &k.by)
}

// find returns the keys with some ids, and why others do not open. One statement reads those that are not
// in memory, and tells of erasures since. Keys that are deleted are missing.
func (s *Sealer) find(
	ctx context.Context, db event.Querier, ids []string,
) (found map[string]*dataKey, closed map[string]error, err error) {
	found, missing, before := s.known(ids)
	mark, fresh, stored, err := readKeys(ctx, db, missing)
	if err == nil && mark != before {
		s.forget(mark)
		found, before = map[string]*dataKey{}, mark
		mark, fresh, stored, err = readKeys(ctx, db, ids)
	}
	if err != nil {
		return nil, nil, err
	}
	read, closed := s.unwrapAll(ctx, db, stored)
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	maps.Copy(found, read)
	if fresh && mark == before {
		s.keep(mark, read)
	}
	return found, closed, nil
}

// unwrapAll unwraps keys. A service that has hung is not asked for the others.
func (s *Sealer) unwrapAll(
	ctx context.Context, db event.Querier, stored []storedKey,
) (read map[string]*dataKey, closed map[string]error) {
	read, closed = map[string]*dataKey{}, map[string]error{}
	away := map[string]error{} // by wrapping key
	for i := range stored {
		k := &stored[i]
		start, err := time.Now(), away[k.by]
		var key *dataKey
		if err == nil {
			key, err = s.unwrap(ctx, k)
		}
		if err == nil {
			read[k.id] = key
			continue
		}
		if time.Since(start) >= unwrapTime {
			away[k.by] = err
		}
		closed[k.id] = s.judge(ctx, db, k, err)
	}
	return read, closed
}

// readKeys reads keys, and the mark of erasures. fresh: the snapshot is not older than the statement.
func readKeys(
	ctx context.Context, db event.Querier, ids []string,
) (mark int64, fresh bool, keys []storedKey, err error) {
	found, err := db.Query(ctx, queryKeys, ids)
	if err == nil {
		var id, by *string
		var subject, wrapped []byte
		_, err = pgx.ForEachRow(found, []any{&mark, &fresh, &id, &subject, &wrapped, &by}, func() error {
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
// appends. The database is always asked: a key in memory may be deleted.
func (s *Sealer) keysFor(ctx context.Context, tx event.Querier, subjects []string) (map[string]*dataKey, error) {
	stored, all := make([]storedKey, len(subjects)), make([]*storedKey, len(subjects))
	for i, subject := range subjects {
		hash := sha256.Sum256([]byte(subject))
		stored[i].subject, all[i] = hash[:], &stored[i]
	}
	_, _, before := s.known(nil)
	fresh, err := askKeys(ctx, tx, all)
	for _, k := range all { // before new ones, which a wrong wrapping key would open
		if err == nil && k.found {
			err = s.openKept(ctx, tx, k)
		}
	}
	if missing := notFound(all); err == nil && len(missing) > 0 {
		fresh, err = s.createAll(ctx, tx, missing)
	}
	keys, read := map[string]*dataKey{}, map[string]*dataKey{}
	for i, k := range all {
		if err == nil && !k.found {
			err = fmt.Errorf("the key %s was deleted while it was created: append again", k.id)
		}
		if err == nil && k.plain == nil { // another transaction has created it
			err = s.openKept(ctx, tx, k)
		}
		keys[subjects[i]], read[k.id] = k.plain, k.plain
	}
	if err != nil {
		return nil, fmt.Errorf("keys of subjects: %w", err)
	}
	if fresh {
		s.keep(before, read)
	}
	return keys, nil
}

// openKept opens a key for an append, which may have it in memory.
func (s *Sealer) openKept(ctx context.Context, tx event.Querier, k *storedKey) (err error) {
	kept, _, _ := s.known([]string{k.id})
	if k.plain = kept[k.id]; k.plain != nil {
		return nil
	}
	if k.plain, err = s.unwrap(ctx, k); err != nil {
		err = s.judge(ctx, tx, k, err)
	}
	return err
}

func notFound(all []*storedKey) (missing []*storedKey) {
	for _, k := range all {
		if !k.found {
			missing = append(missing, k)
		}
	}
	return missing
}

// createAll creates keys by the first wrapping key, once it is recognised. What was recognised may not be on
// record any more: then it looks again, once.
func (s *Sealer) createAll(ctx context.Context, tx event.Querier, missing []*storedKey) (fresh bool, err error) {
	for again := false; len(missing) > 0; again = true {
		check, err := s.recognise(ctx, tx, s.wrappers[0])
		if err != nil {
			return false, err
		}
		for _, k := range missing {
			if err := s.create(ctx, k, check); err != nil {
				return false, err
			}
		}
		if fresh, err = askKeys(ctx, tx, missing); err != nil || again {
			return fresh, err
		}
		if missing = notFound(missing); len(missing) > 0 {
			s.unsee(s.wrappers[0].Name())
		}
	}
	return fresh, nil
}

// create makes a key, which the database takes unless the subject has one by then.
func (s *Sealer) create(ctx context.Context, k *storedKey, check string) (err error) {
	plain := make([]byte, keyBytes)
	_, _ = rand.Read(plain)
	k.id, k.by, k.check = uuid.Must(uuid.NewV7()).String(), s.wrappers[0].Name(), check
	if k.wrapped, err = s.wrappers[0].Wrap(ctx, plain, k.bound()); err != nil {
		return fmt.Errorf("wrap a key by the wrapping key %s: %w", text.Shortened(k.by), err)
	}
	k.plain, err = newDataKey(k.id, plain)
	return err
}

// askKeys reads the keys of subjects, after creating those that have an id. Keys of other transactions win.
func askKeys(ctx context.Context, tx event.Querier, keys []*storedKey) (fresh bool, err error) {
	type document struct {
		Subject string `json:"subject"`
		ID      string `json:"id,omitempty"`
		Wrapped []byte `json:"wrapped,omitempty"`
		By      string `json:"wrapped_by,omitempty"`
		Check   string `json:"check,omitempty"`
	}
	asked, bySubject := []document{}, map[string]*storedKey{}
	for _, k := range keys {
		subject := hex.EncodeToString(k.subject)
		asked, bySubject[subject] = append(asked, document{subject, k.id, k.wrapped, k.by, k.check}), k
	}
	encoded, _ := json.Marshal(asked) // strings cannot fail
	var subject, id, wrapped, by string
	err = visit(ctx, tx, []any{&subject, &id, &wrapped, &by, &fresh}, func() {
		k := bySubject[subject]
		if k == nil {
			return
		}
		if k.id != id {
			k.plain = nil
		}
		k.id, k.by, k.found = id, by, true
		k.wrapped, _ = base64.StdEncoding.DecodeString(wrapped) // one that is broken does not unwrap
	}, querySubjectKeys, string(encoded))
	return fresh, err
}

// visit scans the rows of a statement in an append's transaction.
func visit(ctx context.Context, tx event.Querier, into []any, visit func(), query string, args ...any) error {
	if tx == nil {
		return errors.New("there is no transaction to create them in: give Journal.Encode the append's")
	}
	found, err := rows.Ask(ctx, tx, query, args...)
	if err != nil {
		return err
	}
	for found.Next() {
		if err := found.Scan(into...); err != nil {
			return errors.Join(err, found.Close())
		}
		visit()
	}
	return cmp.Or(found.Err(), found.Close())
}
