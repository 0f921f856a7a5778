package event

import (
	"encoding/json"
	"slices"
)

// Query selects the events, of any campaign, that at least one of its Items selects. Without items
// it selects every event.
type Query struct {
	Items []Item
}

// Item selects the events that have one of its Types and all of its Tags. An empty list matches all.
type Item struct {
	Types []string
	Tags  []string
}

// Types selects the events of these types, whatever their tags.
func Types(types ...string) Query { return Query{Items: []Item{{Types: types}}} }

// Tagged selects the events that have all of these tags, of one of the types if any are given.
func Tagged(tags []string, types ...string) Query {
	return Query{Items: []Item{{Types: types, Tags: tags}}}
}

// Or returns a query that selects what q or one of the others selects.
func (q Query) Or(others ...Query) Query {
	union := Query{}
	there := map[string]bool{}
	for _, one := range append([]Query{q}, others...) {
		if len(one.Items) == 0 {
			return Query{}
		}
		for _, item := range one.Items {
			document, _ := json.Marshal([2][]string{
				append([]string{}, item.Types...), append([]string{}, item.Tags...),
			}) // lists of texts cannot fail
			if !there[string(document)] {
				there[string(document)] = true
				union.Items = append(union.Items, item)
			}
		}
	}
	return union
}

// Matches reports whether the query selects the event.
func (q Query) Matches(e Event) bool {
	return len(q.Items) == 0 || slices.ContainsFunc(q.Items, func(i Item) bool { return i.Matches(e) })
}

// Matches reports whether the item selects the event.
func (i Item) Matches(e Event) bool {
	if len(i.Types) > 0 && !slices.Contains(i.Types, e.Type) {
		return false
	}
	return !slices.ContainsFunc(i.Tags, func(tag string) bool { return !slices.Contains(e.Tags, tag) })
}
