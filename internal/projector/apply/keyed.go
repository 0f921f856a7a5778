package apply

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// Keyed is an event of a projection across campaigns, for one of its keys.
type Keyed struct {
	Event *event.Event // nil: the projection does not want it
	Key   string
	Fault error // known before it is tried: it cannot be read, or its key cannot be found
}

// AppendKeyed appends an event of a projection across campaigns to all, once for each of its keys. fault tells
// why it cannot be read.
func AppendKeyed(all []Keyed, k *registry.Projection, e *event.Event, fault error) []Keyed {
	if k.Keys == nil {
		if one := keyOf(k, e, fault); one.Event != nil {
			all = append(all, one)
		}
		return all
	}
	if !k.Wants(e) {
		return all
	}
	if fault != nil {
		fault = failure.Unreadable(fault)
	}
	keys, err := keysOf(k, e, fault)
	if err != nil {
		return append(all, Keyed{Event: e, Key: projection.AllKeys, Fault: err})
	}
	for _, key := range keys {
		all = append(all, Keyed{Event: e, Key: key, Fault: fault})
	}
	return all
}

// keysOf returns the keys of an event that may have several. Of an event that cannot be read they are known only
// if nothing but its sealed fields is closed, and they are the same whatever these hold.
func keysOf(k *registry.Projection, e *event.Event, fault error) ([]string, error) {
	if fault == nil {
		return findKeys(k, *e)
	}
	if closed := new(feed.ClosedError); !errors.As(fault, &closed) {
		return nil, fault
	}
	keys, err := findKeys(k, feed.WithoutSealed(*e))
	others, unlike := findKeys(k, feed.SealedAs(*e, "sealed"))
	slices.Sort(keys)
	slices.Sort(others)
	if err != nil || unlike != nil || len(keys) == 0 || !slices.Equal(keys, others) {
		return nil, fault
	}
	return keys, nil
}

func findKeys(k *registry.Projection, e event.Event) (keys []string, err error) {
	defer failure.Recover(&err)
	return k.Keys(e)
}

// keyOf returns an event with its only key.
func keyOf(k *registry.Projection, e *event.Event, fault error) (one Keyed) {
	if !k.Wants(e) {
		return one
	}
	one = Keyed{Event: e, Key: projection.AllKeys}
	if k.Described.Key != nil {
		known := *e
		if closed := new(feed.ClosedError); errors.As(fault, &closed) {
			known = feed.WithoutSealed(*e) // a field that does not open must not hide the key beside it
		}
		if one.Key, one.Fault = findKey(k, &known); one.Fault == nil && one.Key == "" && fault == nil {
			return Keyed{}
		}
	}
	if fault != nil {
		one.Fault = failure.Unreadable(fault)
	}
	if one.Fault != nil && one.Key == "" {
		one.Key = projection.AllKeys
	}
	if unfit := checkKey(k, one.Key); unfit != nil {
		one.Key, one.Fault = unfit.standIn(), cmp.Or[error](one.Fault, unfit)
	}
	return one
}

// unfitKeyError is the error of an event whose only key cannot be stored. It is permanent: the code returns the
// key again.
type unfitKeyError struct{ projection, key, reason string }

// checkKey returns nil if a key fits.
func checkKey(k *registry.Projection, key string) *unfitKeyError {
	if reason := text.CheckName(key, text.MaxKey); reason != "" {
		return &unfitKeyError{k.Described.Name, key, reason}
	}
	return nil
}

// standIn returns a key that is stored in place of the event's. Other keys are not held back with it.
func (e *unfitKeyError) standIn() string {
	return fmt.Sprintf("%s, SHA-256 %x", text.Shortened(e.key), sha256.Sum256([]byte(e.key)))
}

func (e *unfitKeyError) Error() string {
	return fmt.Sprintf("the Key of projection %s: %s", e.projection, e.reason)
}

// Redacted returns the error's text without the key, which the event has told.
func (e *unfitKeyError) Redacted() string {
	return fmt.Sprintf("the Key of projection %s has %d bytes and cannot be stored: at most %d bytes of UTF-8 without NUL",
		e.projection, len(e.key), text.MaxKey)
}

func (e *unfitKeyError) FailureClass() projection.Class { return projection.ClassPermanent }

func findKey(k *registry.Projection, e *event.Event) (key string, err error) {
	defer failure.Recover(&err)
	if key, err = k.Described.Key(*e); err != nil {
		return "", fmt.Errorf("find the key of the event: %w", err)
	}
	return key, nil
}

// PartitionOf returns the partition of a key.
func PartitionOf(key string, partitions int) int {
	if partitions == 1 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return int(h.Sum64() % uint64(partitions))
}

// keyAt is an event for a key.
type keyAt struct {
	key      string
	position int64
}

// LeftOut is which events a projection across campaigns leaves out. The zero value leaves out none.
type LeftOut struct {
	events map[int64]bool // by position
	keys   map[keyAt]bool // of events that may have several
}

// Add leaves out an event that is resolved or skipped for a key. An event of one key is left out whatever its key
// is: another version may give it another one. Of several keys it is left out for this one, unless the key stands
// for all.
func (l *LeftOut) Add(k *registry.Projection, key string, position int64) {
	switch {
	case k.Keys == nil, key == projection.AllKeys, key == feed.ErasedKey:
		if l.events == nil {
			l.events = map[int64]bool{}
		}
		l.events[position] = true
	default:
		if l.keys == nil {
			l.keys = map[keyAt]bool{}
		}
		l.keys[keyAt{key, position}] = true
	}
}

// Has reports whether an event is left out for a key.
func (l *LeftOut) Has(key string, position int64) bool {
	return l.events[position] || len(l.keys) > 0 && l.keys[keyAt{key, position}]
}
