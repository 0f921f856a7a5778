package api

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/operator/acts"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/operator/views"
)

var update = flag.Bool("update", false, "write openapi.yaml anew") //nolint:gochecknoglobals // a flag

// begins is the line of openapi.yaml before the generated views and acts. They end at the
// components.
const begins = "  # The calls below are made from the lists of views and acts: go test ./internal/surface/api -update\n"

// TestTheDescriptionHasTheActs compares the generated part of openapi.yaml with [views.All]
// and [acts.All].
func TestTheDescriptionHasTheActs(t *testing.T) {
	t.Parallel()
	head, rest, ok := strings.Cut(string(description), begins)
	_, tail, ends := strings.Cut(rest, "components:\n")
	if !ok || !ends {
		t.Fatal("openapi.yaml has no place for views and acts")
	}
	var b strings.Builder
	for _, view := range views.All() {
		if view.Path != "" {
			describeView(&b, view)
		}
	}
	for _, act := range acts.All() {
		describe(&b, act)
	}
	want := head + begins + b.String() + "components:\n" + tail
	if want == string(description) {
		return
	}
	if !*update {
		t.Fatal("openapi.yaml does not say what views and acts take: go test ./internal/surface/api -update")
	}
	if err := os.WriteFile("openapi.yaml", []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
}

// describe writes the call of an act.
func describe(b *strings.Builder, act *acts.Act) {
	line := describePath(b, act.Path, act.Params)
	line(2, "post:")
	line(3, "operationId: %s", act.Name)
	line(3, "summary: %s", quoted(act.Short))
	if act.Long != "" {
		line(3, "description: %s", quoted(act.Long))
	}
	line(3, "x-role: %s", act.Role)
	line(3, "parameters:")
	line(4, "- {$ref: '#/components/parameters/IdempotencyKey'}")
	line(3, "requestBody:")
	line(4, "content:")
	line(5, "application/json:")
	line(6, "schema:")
	line(7, "type: object")
	line(7, "additionalProperties: false")
	line(7, "properties:")
	why := "Why; goes into the log."
	if act.Reason {
		why = "Why; goes into the log. It is required."
	}
	line(8, "reason: {type: string, maxLength: 4096, description: %s}", quoted(why))
	line(8, "with:")
	line(9, "type: object")
	line(9, "additionalProperties: false")
	line(9, "properties:")
	before := b.Len()
	for _, p := range act.Params {
		if !strings.Contains(act.Path, "{"+p.Name+"}") {
			line(10, "%s: %s", p.Name, schemaOf(p))
		}
	}
	if act.Confirms {
		line(10, "confirm: {type: string, description: %s}", quoted("What a person types on a page: see the act's description."))
	}
	if act.Previews() {
		line(10, "dry_run: {type: boolean, description: %s}", quoted("Do nothing, and answer what would be done."))
	}
	if b.Len() == before {
		text := strings.TrimSuffix(b.String(), "properties:\n") + "properties: {}\n"
		b.Reset()
		b.WriteString(text)
	}
	line(3, "responses:")
	line(4, "'200': {$ref: '#/components/responses/Outcome'}")
	line(4, "default: {$ref: '#/components/responses/Problem'}")
}

// describePath starts the description of a call and returns a function that writes its lines.
func describePath(
	b *strings.Builder, path string, params []param.Param,
) (line func(depth int, format string, args ...any)) {
	line = func(depth int, format string, args ...any) {
		b.WriteString(strings.Repeat("  ", depth) + fmt.Sprintf(format, args...) + "\n")
	}
	line(1, "/api/v1%s:", path)
	if names := regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1); names != nil {
		line(2, "parameters:")
		for _, m := range names {
			p := params[slices.IndexFunc(params, func(p param.Param) bool { return p.Name == m[1] })]
			if p.Type == param.Several { // the path names a single one
				p.Type = param.Text
			}
			line(3, "- {name: %s, in: path, required: true, schema: %s}", m[1], schemaOf(p))
		}
	}
	return line
}

// describeView writes the call of a view.
func describeView(b *strings.Builder, view *views.View) {
	line := describePath(b, view.Path, view.Query)
	line(2, "get:")
	line(3, "operationId: %s", view.Name)
	line(3, "summary: %s", quoted(view.Short))
	if view.Long != "" {
		line(3, "description: %s", quoted(strings.ReplaceAll(view.Long, "\n", " ")))
	}
	line(3, "x-role: %s", view.Role)
	if params := asked(view.Path, view.Query); len(params) > 0 {
		line(3, "parameters:")
		for _, p := range params {
			line(4, "- {name: %s, in: query, %sschema: %s}", p.Name, map[bool]string{true: "required: true, "}[p.Required],
				schemaOf(p))
		}
	}
	item := "{type: string}"
	if view.Schema != "" {
		item = "{$ref: '#/components/schemas/" + view.Schema + "'}"
	}
	line(3, "responses:")
	line(4, "'200':")
	line(5, "description: %s", quoted(answerOf(view)))
	line(5, "headers: {ETag: {schema: {type: string}}}")
	line(5, "content:")
	line(6, "application/json:")
	line(7, "schema:")
	line(8, "type: object")
	line(8, "additionalProperties: false")
	if view.List {
		line(8, "required: [version, items, next]")
		line(8, "properties:")
		line(9, "version: {const: 1}")
		line(9, "items: {type: array, items: %s}", item)
		line(9, "next: {type: [string, 'null']}")
	} else {
		line(8, "required: [version, item]")
		line(8, "properties:")
		line(9, "version: {const: 1}")
		line(9, "item: %s", item)
	}
	line(4, "'304': {description: Not modified since the ETag of If-None-Match.}")
	line(4, "default: {$ref: '#/components/responses/Problem'}")
}

// answerOf describes the body of a view's answer.
func answerOf(view *views.View) string {
	what := cmp.Or(view.Schema, "string")
	if view.List {
		return "One page of a list of " + what + "."
	}
	return "The " + what + "."
}

// schemaOf returns the schema of a parameter in one line.
func schemaOf(p param.Param) string {
	parts := []string{"type: " + map[param.Type]string{
		param.Text: "string", param.Number: "integer", param.Share: "number", param.Switch: "boolean",
		param.Duration: "string", param.Time: "string", param.Several: "array", param.Cursor: "string",
	}[p.Type]}
	choices := ""
	if len(p.Choices) > 0 {
		choices = ", enum: [" + strings.Join(p.Choices, ", ") + "]"
	}
	switch p.Type {
	case param.Several:
		parts = append(parts, "items: {type: string"+choices+"}")
		choices = ""
	case param.Time:
		parts = append(parts, "format: date-time")
	case param.Number:
		parts = append(parts, "minimum: "+strconv.FormatInt(p.Min, 10))
		if p.Max < 1<<62 {
			parts = append(parts, "maximum: "+strconv.FormatInt(p.Max, 10))
		}
	}
	parts[len(parts)-1] += choices
	if p.Default != "" && p.Type != param.Number {
		parts = append(parts, "default: "+quoted(p.Default))
	} else if p.Default != "" {
		parts = append(parts, "default: "+p.Default)
	}
	if p.Help != "" {
		parts = append(parts, "description: "+quoted(strings.ToUpper(p.Help[:1])+p.Help[1:]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// quoted returns a text as a quoted YAML scalar.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
