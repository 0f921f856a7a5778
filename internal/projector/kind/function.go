package kind

import (
	"fmt"
	"strings"
)

// Source is a projection that the database can apply itself, by a function that reads events from
// the journal. Neither events nor statements travel (docs/adr/0005).
type Source interface {
	// Function returns the function, or nil if the projection cannot have one. only returns the
	// version that a type's events must have (0: any), and whether they are used as stored in the
	// journal.
	Function(only func(eventType string) (version int, asStored bool)) *Function
}

// Function is a projection's function.
type Function struct {
	Name       string   // in the schema of the projection's tables
	Statements []string // the statements that it runs

	// Create returns the statement that creates the function in a quoted schema. answers tells for
	// each statement whether it returns rows.
	Create func(schema string, answers []bool) string
}

// FunctionPrefix returns the start of the names of a projection's functions.
func FunctionPrefix(name string, version int) string {
	return fmt.Sprintf("tidemark_%.30s_v%d_", name, version)
}

// Literal quotes a text as an SQL literal.
func Literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
