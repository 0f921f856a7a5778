package journal

import "github.com/tidemark-go/tidemark/internal/store/feed"

// Query selects events of any campaign: those that at least one of its Items selects. A query
// without items selects every event. Or joins queries; Matches reports whether one selects an event.
type Query = feed.Query

// Item selects the events that have one of its Types and all of its Tags. Without types, events of
// any type; without tags, with any tags. Empty, it selects every event.
type Item = feed.Item

// Types selects the events of these types, whatever their tags.
func Types(types ...string) Query { return feed.Types(types...) }

// Tagged selects the events that have all of these tags, of one of the types if any are given.
func Tagged(tags []string, types ...string) Query { return feed.Tagged(tags, types...) }
