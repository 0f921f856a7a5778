package kind

import (
	"fmt"
	"strings"
)

// Source is a projection that the database itself can apply, by a function that reads events from
// the journal: neither events nor statements travel (docs/adr/0005).
type Source interface {
	// Function answers the function, or nil if there can be none. only says which version the events
	// of a type must have, 0 for any, or that they are not to be taken as they are in the journal.
	Function(only func(eventType string) (version int, asStored bool)) *Function
}

// Function is a projection's function.
type Function struct {
	Name       string   // in the schema of the projection's tables
	Statements []string // those that it runs, as they are outside of it

	// Create answers the statement that makes it in a schema, which is quoted. answers says of each
	// statement whether it has rows for a result.
	Create func(schema string, answers []bool) string
}

// FunctionPrefix begins the names of a projection's functions.
func FunctionPrefix(name string, version int) string {
	return fmt.Sprintf("tidemark_%.30s_v%d_", name, version)
}

// Literal quotes a text for SQL.
func Literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
