package sqlfile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/slice"
)

// sqlFunction is an SQL file's handlers as one database function, which reads a group's events from
// the journal and runs each event's statements.
type sqlFunction struct {
	file *sqlFile
	only map[string]int // by event type: the required event version; none: any
}

const (
	// variablePrefix starts the names of the function's variables. A file that contains it gets no function.
	variablePrefix = "tidemark_event"

	// functionRevision changes when the same file yields another function.
	functionRevision = "1"
)

// Function implements [kind.Source].
func (f *sqlFile) Function(only func(eventType string) (version int, asStored bool)) *kind.Function {
	fn := &sqlFunction{file: f, only: map[string]int{}}
	for eventType := range f.byType {
		version, asStored := only(eventType)
		if !asStored {
			return nil
		}
		if version > 0 {
			fn.only[eventType] = version
		}
	}
	var statements []string
	for _, handler := range f.handlers {
		for _, statement := range handler.statements {
			if strings.Contains(strings.ToLower(statement.text), variablePrefix) {
				return nil
			}
			statements = append(statements, statement.text)
		}
	}
	digest := sha256.Sum256([]byte(functionRevision + fn.body(make([]bool, len(statements)))))
	name := kind.FunctionPrefix(f.spec.Name, f.spec.Version) + hex.EncodeToString(digest[:6])
	// The block catches the error of an existing function, so it is not in the server's log.
	create := func(schema string, answers []bool) string {
		return fmt.Sprintf("DO $%[3]s_make$ BEGIN "+
			"CREATE FUNCTION %[1]s.%[2]s (%[3]s_campaigns text[], %[3]s_after bigint[], %[3]s_until bigint[]) RETURNS void "+
			"LANGUAGE plpgsql AS $%[3]s$%[4]s$%[3]s$; "+
			"EXCEPTION WHEN duplicate_function OR unique_violation THEN NULL; END $%[3]s_make$",
			schema, name, variablePrefix, fn.body(answers))
	}
	return &kind.Function{Name: name, Statements: statements, Create: create}
}

// body returns the function's text. A name that may be a column's is a column's. Events come in the
// order that WITH ORDINALITY and the primary key give.
func (fn *sqlFunction) body(answers []bool) string {
	var b strings.Builder
	var declared, targets, reads []string
	used := fn.fields()
	for _, field := range eventFields() {
		if slices.Contains(used, field.name) {
			declared = append(declared, field.variable()+" "+field.cast+";")
			targets, reads = append(targets, field.variable()), append(reads, field.column)
		}
	}
	types := slice.Of(fn.file.handlers, (*sqlHandler).literals)
	fmt.Fprintf(&b, `
#variable_conflict use_column
DECLARE
	%[1]s
	%[2]s_row record;
BEGIN
	FOR %[3]s IN
		SELECT %[4]s
		FROM unnest(%[2]s_campaigns, %[2]s_after, %[2]s_until) WITH ORDINALITY AS c (campaign_id, after, until, ord)
		CROSS JOIN LATERAL (
			SELECT j.seq, j."position", j.event_id, j.event_type, j.event_version, j.aggregate_type, j.aggregate_id,
				j.actor, j.tags, j.payload, j.metadata,
				j.occurred_at, j.recorded_at
			FROM tidemark.journal j
			WHERE j.campaign_id = c.campaign_id AND j.seq > c.after AND j.seq <= c.until AND CASE
				WHEN j.event_version = 0 THEN tidemark.refuse_archived(j.campaign_id, j.metadata) > 0
				ELSE j.intent = 'projection_and_replay' AND j.event_type IN (%[5]s) END
			ORDER BY j.seq
			OFFSET 0
		) j
		ORDER BY c.ord
	LOOP
`, strings.Join(declared, "\n\t"), variablePrefix, strings.Join(targets, ", "), strings.Join(reads, ", "),
		strings.Join(types, ", "))
	if len(fn.file.handlers) == 1 {
		fn.handle(&b, fn.file.handlers[0], answers)
	} else {
		fmt.Fprintf(&b, "CASE %s_event_type\n", variablePrefix)
		for _, handler := range fn.file.handlers {
			fmt.Fprintf(&b, "WHEN %s THEN\n", handler.literals())
			fn.handle(&b, handler, answers)
			answers = answers[len(handler.statements):]
		}
		b.WriteString("END CASE;\n")
	}
	b.WriteString("\tEND LOOP;\nEND\n")
	return b.String()
}

func (h *sqlHandler) literals() string {
	return strings.Join(slice.Of(h.types, kind.Literal), ", ")
}

// handle writes the statements for an event. A loop discards the rows of statements that return some.
func (fn *sqlFunction) handle(b *strings.Builder, handler *sqlHandler, answers []bool) {
	for _, eventType := range handler.types {
		if only := fn.only[eventType]; only > 0 {
			fmt.Fprintf(b,
				"IF %[1]s_event_version <> %[2]d AND %[1]s_event_type = %[3]s THEN RAISE 'an event is of version %%', "+
					"%[1]s_event_version; END IF;\n",
				variablePrefix, only, kind.Literal(eventType))
		}
	}
	for i, statement := range handler.statements {
		if answers[i] {
			fmt.Fprintf(b, "FOR %s_row IN %s\nLOOP END LOOP;\n", variablePrefix, statement.inFunction)
		} else {
			fmt.Fprintf(b, "%s\n;\n", statement.inFunction)
		}
	}
}

// fields names the fields that the function reads.
func (fn *sqlFunction) fields() []string {
	used := []string{"event_type"}
	if len(fn.only) > 0 {
		used = append(used, "event_version")
	}
	for _, handler := range fn.file.handlers {
		for _, statement := range handler.statements {
			for _, field := range statement.fields {
				used = append(used, field.name)
			}
		}
	}
	return used
}

func (f eventField) variable() string { return variablePrefix + "_" + f.name }
