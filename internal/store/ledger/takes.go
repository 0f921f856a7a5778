package ledger

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Takes says which events a reader takes, so that the database counts its lag. The zero value takes all.
type Takes struct {
	Types    []string       `json:"types,omitzero"` // with their aliases; nil: all, empty: none
	Intents  []event.Intent `json:"intents,omitempty"`
	Prefix   string         `json:"prefix,omitempty"` // of the campaign
	Required []string       `json:"required,omitempty"`
	AnyOf    []string       `json:"any_of,omitempty"`
	Notices  bool           `json:"notices,omitempty"` // takes notices of erasures by what was erased
}

// Document returns the filter as tidemark.reader_lag reads it.
func (t Takes) Document() string {
	document, err := json.Marshal(t)
	if err != nil {
		panic(fmt.Sprintf("encode a filter of strings: %v", err))
	}
	return string(document)
}

// SetTakes writes the filters of publishers where they have changed.
func SetTakes(ctx context.Context, db rows.Execer, filters map[publications.Key]Takes) error {
	var topics, publishers, documents []string
	for key, takes := range filters {
		topics, publishers = append(topics, key.Topic), append(publishers, key.Publisher)
		documents = append(documents, takes.Document())
	}
	return rows.Do(ctx, db, "write what publishers take", querySetTakes, topics, publishers, documents)
}
