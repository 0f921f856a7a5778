package catalogue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// A check value is this text and the name of the wrapping key, wrapped as a key of a subject is, and bound to the
// same text: it stands in no key's row.
const checked = "tidemark wrapping key "

func checkText(name string) (plain, bound []byte) {
	bound = []byte(checked + name)
	hash := sha256.Sum256(bound)
	return hash[:], bound
}

// Trust has the database know a wrapping key of the sealer by its name, in the place of what it knows. It is for
// operators, where another key was used first or something else is on record: all appends about new persons are then
// refused with [ErrWrappingKey]. Programs with another key of that name are refused from then on, without a restart.
// It returns how many of some keys that are wrapped by that name it opens. None of several is a sign that it is not
// the right one.
//
// It returns [ErrWrappingKey] if the sealer lacks the wrapping key, or if its service is away.
func (s *Sealer) Trust(ctx context.Context, db event.Querier, name string) (opens, of int, err error) {
	at := slices.IndexFunc(s.wrappers, func(w Wrapper) bool { return w.Name() == name })
	if at < 0 {
		return 0, 0, text.Detail(ErrWrappingKey, "this program does not have the wrapping key %s: give it, with the key "+
			"that is to be trusted", text.Shortened(name))
	}
	check, err := newCheck(ctx, s.wrappers[at])
	if err != nil {
		return 0, 0, err
	}
	some, _, err := someKeys(ctx, db, name, uuid.Nil.String())
	for i := range some {
		if _, err := s.unwrapped(ctx, &some[i]); err == nil {
			opens++
		}
	}
	if err == nil {
		err = visit(ctx, db, nil, func() {}, queryTrust, name, base64.StdEncoding.EncodeToString(check))
	}
	return opens, len(some), err
}

// recognise returns the hash of a wrapping key's check value once the wrapper has opened it. A database that
// has none gets one. It returns [ErrWrappingKey] for another key of the same name.
func (s *Sealer) recognise(ctx context.Context, db event.Querier, w Wrapper) (hash string, err error) {
	s.mu.Lock()
	hash = s.seen[w.Name()]
	s.mu.Unlock()
	if hash != "" {
		return hash, nil
	}
	check, err := askCheck(ctx, db, w.Name(), nil)
	switch {
	case err == nil && check == nil:
		check, err = recordCheck(ctx, db, w)
	case err == nil:
		err = openCheck(ctx, w, check)
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(check)
	hash = hex.EncodeToString(sum[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[w.Name()] = hash
	return hash, nil
}

// unsee has the check value of a wrapping key read again.
func (s *Sealer) unsee(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seen, name)
}

// recordCheck records a check value, and opens that of another transaction if it was faster. Keys that are there do not
// tell which wrapping key is right: any appender can make some that do not open.
func recordCheck(ctx context.Context, db event.Querier, w Wrapper) ([]byte, error) {
	mine, err := newCheck(ctx, w)
	if err != nil {
		return nil, err
	}
	check, err := askCheck(ctx, db, w.Name(), mine)
	switch {
	case err == nil && check == nil:
		err = fmt.Errorf("the record of the wrapping key %s was deleted while it was made: append again",
			text.Shortened(w.Name()))
	case err == nil && !bytes.Equal(check, mine):
		err = openCheck(ctx, w, check)
	}
	return check, err
}

// newCheck returns a check value that the wrapper itself opens.
func newCheck(ctx context.Context, w Wrapper) ([]byte, error) {
	plain, bound := checkText(w.Name())
	check, err := w.Wrap(ctx, plain, bound)
	if err != nil {
		return nil, fmt.Errorf("wrap by the wrapping key %s: %w", text.Shortened(w.Name()), err)
	}
	return check, openCheck(ctx, w, check)
}

// openCheck returns [ErrWrappingKey] if a wrapper does not open a check value.
func openCheck(ctx context.Context, w Wrapper, check []byte) error {
	want, bound := checkText(w.Name())
	bounded, cancel := context.WithTimeout(ctx, unwrapTime)
	defer cancel()
	plain, err := w.Unwrap(bounded, check, bound)
	switch {
	case errors.Is(err, ErrBrokenKey) || err == nil && !bytes.Equal(plain, want):
		return text.Detail(ErrWrappingKey, "the wrapping key %s is not the one that the database knows by that name: give "+
			"that one; if what is on record is wrong, an operator who has the right one runs tidemark keys trust %[1]s",
			text.Shortened(w.Name()))
	case err != nil:
		return fmt.Errorf("%w: %w", text.Detail(ErrWrappingKey, "the wrapping key %s cannot be recognised now",
			text.Shortened(w.Name())), err)
	}
	return nil
}

// compare returns the error of [openCheck] for the check value that is on record, if there is one.
func (s *Sealer) compare(ctx context.Context, db event.Querier, name string) error {
	at := slices.IndexFunc(s.wrappers, func(w Wrapper) bool { return w.Name() == name })
	check, err := askCheck(ctx, db, name, nil)
	if err != nil || check == nil || at < 0 {
		return err
	}
	return openCheck(ctx, s.wrappers[at], check)
}

// askCheck returns a wrapping key's check value, nil if there is none, after recording one if there is none.
func askCheck(ctx context.Context, db event.Querier, name string, record []byte) (check []byte, err error) {
	var found *string
	err = visit(ctx, db, []any{&found}, func() {
		if found != nil {
			check, _ = base64.StdEncoding.DecodeString(*found) // one that is broken does not open
		}
	}, queryWrappingKey, name, base64.StdEncoding.EncodeToString(record))
	return check, err
}
