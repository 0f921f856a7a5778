package sqlfile

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// tokenKind is the kind of a token, as far as the compiler of SQL files distinguishes them. Others are symbol.
type tokenKind int

const (
	symbol           tokenKind = iota // one character: part of an operator, a bracket, a comma …
	space                             // no token
	lineComment                       // -- to the end of the line
	blockComment                      // /* … */, which Postgres lets nest
	placeholder                       // $1
	literal                           // a string of any kind, or a number
	quotedIdentifier                  // "Sessions"
	word                              // a keyword or an unquoted identifier
)

// lexemes has a group for each kind of token from space on. It follows Postgres' own scanner with
// standard_conforming_strings on; every byte beyond ASCII counts as a letter. It matches only the
// start of block comments and of dollar-quoted strings.
const (
	letter  = `(?:[A-Za-z_]|[^\x00-\x7F])`
	lexemes = `(?s)^(?:([ \t-\r]+)|(--[^\r\n]*)|(/\*)|(\$[0-9]+)|` +
		`([eE]'(?:\\.|''|[^'\\])*'|'(?:''|[^'])*'|[0-9](?:[0-9.]|` + letter + `)*|\$(?:` + letter +
		`(?:[0-9]|` + letter + `)*)?\$)|("(?:""|[^"])*")|(` + letter + `(?:[0-9$]|` + letter + `)*))`
)

// token is a part of the source. White space belongs to no token.
type token struct {
	kind tokenKind
	text string
	pos  int // byte offset in the source
	line int // from 1
}

// is reports whether t is the keyword, given in lower case.
func (t token) is(keyword string) bool {
	return t.kind == word && strings.EqualFold(t.text, keyword)
}

// isAny reports whether t is one of the keywords, given in lower case.
func (t token) isAny(keywords ...string) bool { return slices.ContainsFunc(keywords, t.is) }

// lex cuts src into tokens. It reports a string, quoted name or comment that never ends at its start.
func lex(src string, report func(line int, format string, args ...any)) (tokens []token) {
	lexeme := regexp.MustCompile(lexemes)
	line := 1
	for pos := 0; pos < len(src); {
		rest := src[pos:]
		kind, n := symbol, 1
		if found := lexeme.FindStringSubmatchIndex(rest); found != nil {
			n = found[1]
			for kind = space; found[2*int(kind)] < 0; {
				kind++
			}
		}
		endless := ""
		switch text := rest[:n]; {
		case kind == blockComment:
			if n = blockCommentEnd(rest); n < 0 {
				endless = "comment"
			}
		case kind == literal && text[0] == '$':
			end := strings.Index(rest[n:], text)
			if n = 2*n + end; end < 0 {
				endless = "string " + text
			}
		case kind == symbol && text == "'":
			kind, endless = literal, "string"
		case kind == symbol && text == `"`:
			kind, endless = quotedIdentifier, "quoted name"
		}
		if endless != "" {
			report(line, "%s never ends", endless)
			n = len(rest)
		}
		if kind != space {
			tokens = append(tokens, token{kind: kind, text: rest[:n], pos: pos, line: line})
		}
		line += strings.Count(rest[:n], "\n")
		pos += n
	}
	return tokens
}

// blockCommentEnd returns the length of the comment at the start of s, or -1 if it does not end.
func blockCommentEnd(s string) int {
	depth := 0
	for _, at := range regexp.MustCompile(`/\*|\*/`).FindAllStringIndex(s, -1) {
		if s[at[0]] == '/' {
			depth++
		} else if depth--; depth == 0 {
			return at[1]
		}
	}
	return -1
}

// eventField is a field that an SQL file may use after "event.".
type eventField struct {
	name   string
	cast   string // the type of its parameter
	column string // the same value, from a row j of the journal and its campaign c
	value  func(*event.Event) any
}

// emptyObject replaces a missing payload or metadata, so that ->> always meets an object.
const emptyObject = "{}"

// eventFields returns the fields in the order in which messages and documents list them. Values
// have types that pgx sends without conversion: json.RawMessage is copied as it is, while other
// JSON types would be marshalled once more.
func eventFields() []eventField {
	return []eventField{
		{"campaign_id", "text", "c.campaign_id", func(e *event.Event) any { return e.CampaignID }},
		{"seq", "bigint", "j.seq", func(e *event.Event) any { return e.Seq }},
		{"position", "bigint", `j."position"`, func(e *event.Event) any { return e.Position }},
		{"event_id", "uuid", "j.event_id", func(e *event.Event) any { return e.ID.String() }},
		{"event_type", "text", "j.event_type", func(e *event.Event) any { return e.Type }},
		{"event_version", "int", "j.event_version", func(e *event.Event) any { return int32(e.Version) }},
		{"aggregate_type", "text", "nullif(j.aggregate_type, '')", func(e *event.Event) any {
			return textOrNull(e.AggregateType)
		}},
		{"aggregate_id", "text", "nullif(j.aggregate_id, '')", func(e *event.Event) any {
			return textOrNull(e.AggregateID)
		}},
		{"actor", "text", "nullif(j.actor, '')", func(e *event.Event) any { return textOrNull(e.Actor) }},
		{"tags", "text[]", "coalesce(j.tags, '{}')", func(e *event.Event) any { return append([]string{}, e.Tags...) }},
		{"payload", "jsonb", "j.payload", func(e *event.Event) any { return objectOrEmpty(feed.Stored(e)) }},
		{"metadata", "jsonb", "coalesce(j.metadata, '{}')", func(e *event.Event) any { return objectOrEmpty(e.Metadata) }},
		{"occurred_at", "timestamptz", "j.occurred_at", func(e *event.Event) any { return e.OccurredAt }},
		{"recorded_at", "timestamptz", "j.recorded_at", func(e *event.Event) any { return e.RecordedAt }},
	}
}

func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func objectOrEmpty(object json.RawMessage) json.RawMessage {
	if len(object) == 0 {
		return json.RawMessage(emptyObject)
	}
	return object
}
