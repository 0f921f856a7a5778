package projection

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// mostKeys is the most keys of an event.
const mostKeys = 64

// EventKeys returns the keys of the documents that an event changes.
func (d *document[T]) EventKeys(e event.Event) ([]string, error) { return d.keysOf(e) }

// keysOf is EventKeys of a document with Key or Keys.
func (d Document[T]) keysOf(e event.Event) ([]string, error) {
	if d.Keys != nil {
		return d.severalKeys(e)
	}
	key, err := d.Key(e)
	if err != nil || key == "" {
		return nil, err
	}
	return []string{key}, nil
}

// FoldByKey folds an event into documents by their keys, as the projection does, so that a decision can use its
// code: journal.Decide(ctx, tx, query, stock.FoldByKey). Without Key and Keys the key is [AllKeys]. Events of types
// that the document does not want change nothing.
func (d Document[T]) FoldByKey(docs *map[string]T, e event.Event) error {
	if types := d.types(); types != nil && !slices.Contains(types, e.Type) {
		return nil
	}
	keys, err := d.keyed().keysOf(e)
	if err != nil {
		return err
	}
	if *docs == nil {
		*docs = map[string]T{}
	}
	of := d.folded()
	for _, key := range keys {
		doc, there := (*docs)[key]
		deleted, err := of.fold(&doc, key, e, !there)
		if err != nil {
			return err
		}
		if (*docs)[key] = doc; deleted {
			delete(*docs, key)
		}
	}
	return nil
}

// severalKeys returns the keys of a document with Keys, checked.
func (d Document[T]) severalKeys(e event.Event) ([]string, error) {
	keys, err := d.Keys(e)
	if err != nil {
		return nil, err
	}
	key, reason := checkKeys(keys)
	if reason == "" && d.Scope == ScopeJournal && slices.Contains(keys, feed.ErasedKey) {
		key, reason = feed.ErasedKey, "stands for keys that have been erased: use another one"
	}
	if reason != "" {
		return nil, &keysError{d.Name, key, reason}
	}
	return keys, nil
}

// checkKeys returns why keys of an event cannot be used, and which one is at fault; "": none.
func checkKeys(keys []string) (key, reason string) {
	if len(keys) > mostKeys {
		return "", fmt.Sprintf("the event has %d keys, the limit is %d: have it change fewer documents, or append several "+
			"events", len(keys), mostKeys)
	}
	for i, key := range keys {
		switch {
		case key == "":
			return "", fmt.Sprintf("key %d of %d is empty: leave it out", i+1, len(keys))
		case key == AllKeys:
			return key, "stands for all keys: use another one"
		case len(key) > text.MaxKey:
			return key, fmt.Sprintf("is longer than %d bytes: use a shorter one", text.MaxKey)
		case strings.IndexByte(key, 0) >= 0:
			return key, "holds a NUL character, which Postgres cannot store: remove it"
		case !utf8.ValidString(key):
			return key, "is not valid UTF-8: encode it as UTF-8"
		case slices.Contains(keys[:i], key):
			return key, "is there twice: return each key once, as slices.Compact of sorted keys does"
		}
	}
	return "", ""
}

// keysError is the error of an event whose keys cannot be used. It is permanent: the code returns them again.
type keysError struct{ projection, key, reason string }

func (e *keysError) Error() string {
	if e.key == "" {
		return fmt.Sprintf("the Keys of projection %s: %s", e.projection, e.reason)
	}
	return fmt.Sprintf("the Keys of projection %s: the key %s %s", e.projection, text.Shortened(e.key), e.reason)
}

// Redacted returns the error's text without the key, which the event has told.
func (e *keysError) Redacted() string {
	if e.key == "" {
		return e.Error()
	}
	return fmt.Sprintf("the Keys of projection %s: a key %s", e.projection, e.reason)
}

func (e *keysError) FailureClass() Class { return ClassPermanent }

// takesKeys tells the projector that a group may have an event once for each of its keys.
func (d *document[T]) takesKeys() {}

// findSeveral is find for documents with Keys. Across campaigns, the group has the keys.
func (d *document[T]) findSeveral(g *Group, w *working[T]) error {
	if keys := g.state.Keys; keys != nil {
		for i := range g.Events {
			w.changes[i] = w.document(documentID{key: keys[i]}, i)
		}
		return nil
	}
	w.changes, w.events = w.changes[:0], make([]int, 0, len(g.Events))
	for i := range g.Events {
		e := &g.Events[i]
		g.at(e)
		keys, err := d.severalKeys(*e)
		if err != nil {
			return err
		}
		for _, key := range keys {
			w.changes, w.events = append(w.changes, w.document(d.id(e, key), i)), append(w.events, i)
		}
	}
	return nil
}
