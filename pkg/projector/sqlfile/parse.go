package sqlfile

import (
	"bytes"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parseSQLFile reads a projection from the text of an SQL file: a header, tables, handlers.
func parseSQLFile(file string, raw []byte) (*sqlFile, error) {
	errs := &mistakes{file: file}
	src, ok := sourceText(raw, errs)
	if !ok {
		return nil, errs.join()
	}
	p := &sqlParser{
		src:    src,
		errs:   errs,
		file:   &sqlFile{file: file, byType: map[string]*sqlHandler{}},
		onLine: map[string]int{},
	}
	tokens := lex(src, errs.add)
	cutShort := len(errs.list) > 0 // the rest of the file is unknown, so nothing counts as missing
	p.parse(tokens)
	if !cutShort {
		p.reportMissing()
	}
	if len(errs.list) > 0 {
		return nil, errs.join()
	}
	return p.file, nil
}

// sourceText returns raw without a byte order mark, and with \n line ends.
func sourceText(raw []byte, errs *mistakes) (string, bool) {
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	for line, text := range bytes.Split(raw, []byte("\n")) {
		if !utf8.Valid(text) {
			errs.add(line+1, "not UTF-8: save the file in that encoding")
		}
		if bytes.IndexByte(text, 0) >= 0 {
			errs.add(line+1, "a NUL character, which Postgres does not accept")
		}
	}
	return strings.ReplaceAll(string(raw), "\r\n", "\n"), len(errs.list) == 0
}

type sqlParser struct {
	src         string
	errs        *mistakes
	file        *sqlFile
	handler     *sqlHandler    // nil: still at the tables
	pending     []token        // tokens of the section, without comments
	onLine      map[string]int // event type → line of its handler
	versionLine int
	failureLine int // of the projection's policy
}

func (p *sqlParser) parse(tokens []token) {
	for _, t := range tokens {
		switch t.kind {
		case lineComment:
			if key, value, ok := p.directive(t); ok {
				p.header(t.line, key, value)
			}
		case blockComment:
		default:
			p.pending = append(p.pending, t)
		}
	}
	p.endSection()
}

// directive returns the key and value of a comment such as "-- on: session_started" that begins its line.
func (p *sqlParser) directive(t token) (key, value string, ok bool) {
	lineStart := strings.LastIndexByte(p.src[:t.pos], '\n') + 1
	if strings.TrimSpace(p.src[lineStart:t.pos]) != "" {
		return "", "", false
	}
	key, value, ok = strings.Cut(strings.TrimPrefix(t.text, "--"), ":")
	key = strings.ToLower(strings.TrimSpace(key))
	if !ok || !slices.Contains([]string{
		"projection", "version", "scope", "key", "partitions", "on", "on failure",
	}, key) {
		return "", "", false
	}
	return key, strings.TrimSpace(value), true
}

func (p *sqlParser) header(line int, key, value string) {
	switch key {
	case "projection":
		p.name(line, value)
	case "version":
		p.version(line, value)
	case "on failure":
		p.onFailure(line, value)
	case "scope", "key", "partitions":
		p.across(line, key, value)
	case "on":
		p.endSection()
		if p.handler == nil && len(p.file.tables) == 0 {
			p.errs.add(line, "a handler before the tables: the CREATE TABLE statements come first")
		}
		p.handler = &sqlHandler{types: p.types(line, value), line: line}
		p.file.handlers = append(p.file.handlers, p.handler)
	}
}

func (p *sqlParser) name(line int, value string) {
	switch {
	case p.file.nameLine > 0:
		p.errs.add(line, "a second projection: one file holds one (the first is in line %d)", p.file.nameLine)
		return
	case !regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`).MatchString(value):
		p.errs.add(line, "projection name %q: lower-case letters, digits and underscores, a letter first, at most 63", value)
	}
	p.file.nameLine = line
	p.file.spec.Name = value
}

func (p *sqlParser) version(line int, value string) {
	if p.versionLine > 0 {
		p.errs.add(line, "a second version (the first is in line %d)", p.versionLine)
		return
	}
	version, err := strconv.ParseInt(value, 10, 32)
	if err != nil || version < 1 {
		p.errs.add(line, "version %q: a whole number from 1", value)
	}
	p.versionLine = line
	p.file.spec.Version = int(version)
}

// types reads the event types of a handler, and records the handler's line for each.
func (p *sqlParser) types(line int, value string) []string {
	var types []string
	for written := range listed(value) {
		eventType, ok := unquoted(written)
		if !ok {
			p.errs.add(line, "event type %q: write -- on: type, type …, and a type with spaces, commas or quotes as "+
				`"order placed", with "" for a quote in it`, written)
			continue
		}
		if first, taken := p.onLine[eventType]; taken {
			p.errs.add(line, "a second handler for %s (the first is in line %d)", eventType, first)
			continue
		}
		p.onLine[eventType] = line
		types = append(types, eventType)
	}
	return types
}

// listed returns the parts of value between commas outside double quotes.
func listed(value string) iter.Seq[string] {
	return func(yield func(string) bool) {
		quoted, from := false, 0
		for i := range len(value) {
			switch {
			case value[i] == '"':
				quoted = !quoted
			case value[i] == ',' && !quoted:
				if !yield(strings.TrimSpace(value[from:i])) {
					return
				}
				from = i + 1
			}
		}
		yield(strings.TrimSpace(value[from:]))
	}
}

// unquoted returns the event type that is written as it is or, like names in SQL, in double quotes.
func unquoted(written string) (eventType string, ok bool) {
	if inner, quoted := strings.CutPrefix(written, `"`); quoted {
		inner, closed := strings.CutSuffix(inner, `"`)
		rest := strings.ReplaceAll(inner, `""`, "")
		return strings.ReplaceAll(inner, `""`, `"`), closed && inner != "" && !strings.Contains(rest, `"`)
	}
	return written, written != "" && !strings.ContainsAny(written, " \t'\";*")
}

// endSection compiles the statements since the last header.
func (p *sqlParser) endSection() {
	section := p.pending
	p.pending = nil
	for _, tokens := range p.split(section) {
		statement := p.compile(tokens)
		if p.handler == nil {
			p.file.tables = append(p.file.tables, statement)
			p.file.spec.Tables += statement.text + ";\n"
		} else {
			p.handler.statements = append(p.handler.statements, statement)
		}
	}
	if p.handler == nil {
		return
	}
	if len(p.handler.statements) == 0 {
		p.errs.add(p.handler.line, "an empty handler: leave it out to ignore these events")
	}
	for _, eventType := range p.handler.types {
		p.file.byType[eventType] = p.handler
		p.file.spec.Types = append(p.file.spec.Types, eventType)
	}
}

// split cuts a section into statements at its semicolons, except within brackets (CREATE RULE) or
// the body of a function in standard SQL (BEGIN ATOMIC … END).
func (p *sqlParser) split(section []token) [][]token {
	var statements [][]token
	var open []token      // brackets
	start, blocks := 0, 0 // blocks: BEGIN ATOMIC and CASE … END inside it
	end := func(i int) {
		if i > start {
			statements = append(statements, section[start:i])
		}
		for _, bracket := range open {
			p.errs.add(bracket.line, "a bracket that is never closed")
		}
		start, open, blocks = i+1, nil, 0
	}
	for i, t := range section {
		switch {
		case t.text == "(":
			open = append(open, t)
		case t.text == ")" && len(open) > 0:
			open = open[:len(open)-1]
		case t.is("begin") && i+1 < len(section) && section[i+1].is("atomic"), blocks > 0 && t.is("case"):
			blocks++
		case blocks > 0 && t.is("end"):
			blocks--
		case t.text == ";" && len(open) == 0 && blocks == 0:
			end(i)
		}
	}
	end(len(section))
	return statements
}

func (p *sqlParser) reportMissing() {
	if p.file.nameLine == 0 {
		p.errs.add(0, "no projection header: begin with a line such as -- projection: sessions")
	}
	if p.versionLine == 0 {
		p.errs.add(0, "no version header: add a line such as -- version: 1")
	}
	if len(p.file.handlers) == 0 {
		p.errs.add(0, "no handler: add one with a line such as -- on: session_started")
		if len(p.file.tables) == 0 {
			p.errs.add(0, "no tables: a projection writes to tables of its own")
		}
	}
}
