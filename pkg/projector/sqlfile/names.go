package sqlfile

import "slices"

// A projection's own tables are named without a schema: it is rebuilt in another schema beside the
// live one, and a qualified name would reach through to the live tables.

// qualifiedName is a table written with a schema.
type qualifiedName struct {
	schema, table string
	line          int
}

// declare files the tables and views that a CREATE statement makes.
func (p *sqlParser) declare(tokens []token) {
	if !tokens[0].is("create") {
		return
	}
	i := 1
	for i < len(tokens) && tokens[i].isAny("or", "replace", "unlogged", "materialized", "recursive", "global", "local",
		"temp", "temporary") {
		if tokens[i].isAny("temp", "temporary") {
			p.errs.add(tokens[i].line, "a temporary table is gone when its connection closes: leave out %s", tokens[i].text)
		}
		i++
	}
	if i >= len(tokens) || !tokens[i].isAny("table", "view") {
		return
	}
	i++
	for i < len(tokens) && tokens[i].isAny("if", "not", "exists") {
		i++
	}
	if _, table, n := tableName(tokens[i:]); n > 0 {
		p.own = append(p.own, table)
	}
}

// tableName reads a name, with or without a schema, at the start of tokens, and answers how many tokens it took.
func tableName(tokens []token) (schema, table string, n int) {
	if len(tokens) == 0 {
		return "", "", 0
	}
	table, ok := tokens[0].identifier()
	if !ok {
		return "", "", 0
	}
	if len(tokens) < 3 || tokens[1].text != "." {
		return "", table, 1
	}
	if last, ok := tokens[2].identifier(); ok {
		return table, last, 3
	}
	return "", table, 1
}

// collectQualified files the tables that a statement names with a schema. It looks only where SQL has
// a table: elsewhere a.b is a table's column.
func (p *sqlParser) collectQualified(tokens []token) {
	var brackets []token // what stands before each open bracket
	for i, t := range tokens {
		switch {
		case t.text == "(":
			brackets = append(brackets, tokens[max(i-1, 0)])
		case t.text == ")" && len(brackets) > 0:
			brackets = brackets[:len(brackets)-1]
		case t.is("from") && (i > 0 && tokens[i-1].is("distinct") || withinFrom(brackets)):
			// IS DISTINCT FROM a.b, extract(epoch FROM a.b)
		case t.isAny("from", "into", "update", "join", "table", "only", "exists", "references", "on"):
			schema, table, n := tableName(tokens[i+1:])
			onCondition := t.is("on") && !tokens[0].is("create") // JOIN … ON a.b = c.d
			if n == 3 && !onCondition {
				p.qualified = append(p.qualified, qualifiedName{schema, table, t.line})
			}
		}
	}
}

// withinFrom reports whether the innermost bracket belongs to a function whose arguments are parted by FROM.
func withinFrom(brackets []token) bool {
	return len(brackets) > 0 && brackets[len(brackets)-1].isAny("extract", "substring", "trim", "overlay")
}

// reportForeignNames reports own tables that are named with a schema, once all own tables are known.
func (p *sqlParser) reportForeignNames() {
	for _, name := range p.qualified {
		if slices.Contains(p.own, name.table) {
			p.errs.add(name.line, "%s.%s: name the projection's own tables without a schema", name.schema, name.table)
		}
	}
}
