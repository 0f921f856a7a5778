package feed

import (
	"fmt"
	"slices"
)

// Query selects events of any campaign: those that at least one of its items selects. A query
// without items selects every event.
type Query struct {
	Items []Item
}

// Item selects the events that have one of the types and all of the tags. Without types, events of
// any type; without tags, with any tags. Empty, it selects every event.
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

// Or selects what q or one of the others selects.
func (q Query) Or(others ...Query) Query {
	queries := append([]Query{q}, others...)
	union := Query{}
	there := map[string]bool{}
	for _, one := range queries {
		if len(one.Items) == 0 {
			return Query{}
		}
		for _, item := range one.Items {
			document := string(appendItem(nil, item))
			if !there[document] {
				there[document] = true
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

// CheckQuery reports a query that could not be what its author meant.
func CheckQuery(q Query) error {
	for i, item := range q.Items {
		for _, list := range []struct {
			field  string
			values []string
		}{{"types", item.Types}, {"tags", item.Tags}} {
			for n, value := range list.values {
				if reason := CheckName(value, maxQueryTextBytes); reason != "" {
					return fmt.Errorf("%w: items[%d].%s[%d] %s", ErrInvalidQuery, i, list.field, n, reason)
				}
			}
		}
	}
	return nil
}

// AppendQuery appends the query as the JSON document that the SQL functions read.
func AppendQuery(buf []byte, q Query) []byte {
	buf = append(buf, `{"items":[`...)
	for i, item := range q.Items {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = appendItem(buf, item)
	}
	return append(buf, `]}`...)
}

func appendItem(buf []byte, item Item) []byte {
	buf = appendStrings(append(buf, `{"types":`...), item.Types)
	buf = appendStrings(append(buf, `,"tags":`...), item.Tags)
	return append(buf, '}')
}

func appendStrings(buf []byte, values []string) []byte {
	buf = append(buf, '[')
	for i, value := range values {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = AppendString(buf, value)
	}
	return append(buf, ']')
}

// maxQueryTextBytes bounds a type and a tag in a query: no event has a longer one.
const maxQueryTextBytes = 4096
