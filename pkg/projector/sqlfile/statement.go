package sqlfile

import (
	"slices"
	"strconv"
	"strings"
)

// sqlStatement is a statement of an SQL file as it is sent to Postgres. Its text has as many lines
// as in the file, so a position in it leads back to the file.
type sqlStatement struct {
	text       string
	inFunction string       // text with variables instead of parameters
	words      []string     // its tokens, without comments
	line       int          // first line in the file
	fields     []eventField // field i is parameter i+1
}

// compile makes a statement of the section's tokens. It replaces each event.<field> by a parameter, one per field.
func (p *sqlParser) compile(tokens []token) sqlStatement {
	first, name := tokens[0], strings.ToUpper(tokens[0].text)
	switch {
	case first.isAny("begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "prepare"):
		p.errs.add(first.line, "%s: the projector begins and ends the transaction", name)
	case p.handler == nil && first.isAny("copy", "set", "reset", "discard", "vacuum"):
		p.errs.add(first.line, "%s has no place among a projection's tables", name)
	case p.handler != nil && !first.isAny("insert", "update", "delete", "merge", "with", "select"):
		p.errs.add(first.line, "%s: a handler is made of INSERT, UPDATE, DELETE, MERGE, WITH and SELECT", name)
	}
	statement := sqlStatement{line: first.line}
	for _, t := range tokens {
		statement.words = append(statement.words, t.text)
	}
	var field eventField
	var text, in strings.Builder
	copied := first.pos // the source up to here has been copied to both
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		if t.kind == placeholder {
			p.errs.add(t.line, "%s: parameters are written event.<field>", t.text)
		}
		if !t.is("event") || i+2 >= len(tokens) || tokens[i+1].text != "." || i > 0 && tokens[i-1].text == "." {
			continue
		}
		i += 2
		name := strings.ToLower(strings.Trim(tokens[i].text, `"`))
		if p.handler == nil {
			p.errs.add(t.line, "event.%s among the tables: there is an event only below an -- on: line", name)
			continue
		}
		var names []string
		for _, field = range eventFields() {
			if names = append(names, field.name); field.name == name {
				break
			}
		}
		if field.name != name {
			p.errs.add(t.line, "unknown field event.%s: there are %s", name, strings.Join(names, ", "))
			continue
		}
		after := tokens[i].pos + len(tokens[i].text)
		text.WriteString(p.src[copied:t.pos])
		text.WriteString(statement.parameter(field))
		text.WriteString(strings.Repeat("\n", strings.Count(p.src[t.pos:after], "\n")))
		in.WriteString(p.src[copied:t.pos] + "(" + field.variable() + ")")
		copied = after
	}
	last := tokens[len(tokens)-1]
	rest := p.src[copied : last.pos+len(last.text)]
	statement.text, statement.inFunction = text.String()+rest, in.String()+rest
	return statement
}

// parameter returns the SQL for a field. The brackets keep a following subscript from becoming part of the type.
func (s *sqlStatement) parameter(field eventField) string {
	i := slices.IndexFunc(s.fields, func(f eventField) bool { return f.name == field.name })
	if i < 0 {
		i = len(s.fields)
		s.fields = append(s.fields, field)
	}
	return "($" + strconv.Itoa(i+1) + "::" + field.cast + ")"
}
