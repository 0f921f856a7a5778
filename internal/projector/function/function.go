// Package function is what the projector and a kind of projection agree on where the database itself
// applies events: by a function that reads them from the journal, so that neither events nor
// statements travel (docs/adr/0005).
package function

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Source is a projection of which a function can be made.
type Source interface {
	// Function answers the function, or nil if there can be none. only says which version the events of a
	// type must have, 0 for any, or that they are not to be taken as they are in the journal.
	Function(only func(eventType string) (version int, asStored bool)) Function
}

// Function is a projection's function.
type Function interface {
	// Name is its name in the schema of the projection's tables.
	Name() string

	// Statements are those that it runs, as they are outside of it.
	Statements() []string

	// Create answers the statement that makes it in a schema, which is quoted. answers says of each
	// statement whether it has rows for a result.
	Create(schema string, answers []bool) string
}

// Eventwise is a projection that takes its events one by one. What it does about one follows from that
// one. G is the projector's group.
type Eventwise[G any] interface {
	ApplyEvent(ctx context.Context, group G, e journal.Event) error
}

// Prefix begins the names of a projection's functions.
func Prefix(name string, version int) string {
	return fmt.Sprintf("tidemark_%.30s_v%d_", name, version)
}

// Literal quotes a text for SQL.
func Literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
