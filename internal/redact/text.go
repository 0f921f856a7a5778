package redact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/pkg/event"
)

const (
	messageBytes = 4 << 10
	stackBytes   = 16 << 10

	// searched is how much of a message is searched for values, far more than is kept.
	searched = 64 << 10

	// shortest is the length from which a value is removed anywhere. Shorter values are removed only
	// between quotes, because outside they could be any text.
	shortest = 4

	// beginning is the length from which the beginning of a value that is cut off is removed.
	beginning = 8

	// mostValues bounds the work for one message. A message with more values is replaced as a whole.
	mostValues = 100_000

	gone = "…"
)

// Text makes a message safe to keep: without the values of the given events, without passwords in
// URLs and connection strings, as valid UTF-8 without NUL, up to 4 KiB.
func Text(message string, about ...*event.Event) string {
	message = quotations(valid(message))
	for _, e := range about {
		message = documents(documents(message, e.Payload), e.Metadata)
	}
	message = cut(message, searched)
	found, ok := values(about)
	if !ok {
		return gone
	}
	lower := lowered(message)
	for _, v := range found {
		if shorter := without(message, lower, v); shorter != message {
			message, lower = shorter, lowered(shorter)
		}
	}
	return cut(passwords(message), messageBytes)
}

func documents(message string, document json.RawMessage) string {
	raw := bytes.TrimSpace(document)
	if len(raw) <= len("{}") {
		return message
	}
	message = strings.ReplaceAll(message, string(raw), gone)
	var compact bytes.Buffer
	if json.Compact(&compact, raw) == nil {
		message = strings.ReplaceAll(message, compact.String(), gone)
	}
	return message
}

// Stack does the same for a stack, which contains no values, up to 16 KiB.
func Stack(stack string) string { return cut(passwords(valid(stack)), stackBytes) }

// valid returns text that Postgres accepts.
func valid(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// cut shortens text to limit bytes without splitting a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// Passwords in URLs and in connection strings.
var (
	passwordInURL = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@"']*):[^\s"']*@`)
	passwordNamed = regexp.MustCompile(
		`(?i)\b(password|passwd|pwd|sslpassword|secret|token|api_?key)(\s*[=:]\s*)('(?:[^'\\]|\\.)*'|"[^"]*"|[^\s,;&"']+)`,
	)
)

func passwords(s string) string {
	s = passwordInURL.ReplaceAllString(s, "${1}:"+gone+"@")
	return passwordNamed.ReplaceAllString(s, "${1}${2}"+gone)
}

// values returns the values of events, the longest first: strings and numbers in payloads and
// metadata, tags, actors, aggregate ids, and field names that cannot be column names. Other field names
// are kept because columns have the same names, and an id that the campaign has too because messages
// name campaigns. It returns false if there are too many values.
func values(events []*event.Event) ([]string, bool) {
	var found []string
	var walk func(v any)
	walk = func(v any) {
		if len(found) > mostValues {
			return
		}
		switch v := v.(type) {
		case string:
			found = append(found, v)
		case json.Number:
			found = append(found, v.String())
		case []any:
			for _, element := range v {
				walk(element)
			}
		case map[string]any:
			if id, ok := v["key"].(string); ok && v["$sealed"] != nil && len(v) == 2 && uuid.Validate(id) == nil {
				walk(v["$sealed"])
				return // messages name keys
			}
			for name, field := range v {
				if !plain.MatchString(name) {
					found = append(found, name)
				}
				walk(field)
			}
		}
	}
	for _, e := range events {
		for _, document := range []json.RawMessage{e.Payload, e.Metadata} {
			d := json.NewDecoder(bytes.NewReader(document))
			d.UseNumber()
			var root any
			if len(document) > 0 && d.Decode(&root) == nil {
				walk(root)
			}
		}
		for _, tag := range e.Tags {
			_, value, _ := strings.Cut(tag, "=")
			found = append(found, tag, value)
		}
		for _, id := range []string{e.Actor, e.AggregateID} {
			if id != e.CampaignID {
				found = append(found, id)
			}
		}
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(found), len(found) <= mostValues
}

// plain matches names that a column or a Go field can have.
var plain = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// without replaces a value between quotes or as a word of its own. lower is the message in lower case.
func without(message, lower, value string) string {
	if value == "" {
		return message
	}
	before := message
	for _, q := range []string{strconv.Quote(value), `"` + value + `"`, `'` + value + `'`} {
		message = strings.ReplaceAll(message, q, q[:1]+gone+q[:1])
	}
	if utf8.RuneCountInString(value) < shortest {
		return message
	}
	if message != before {
		lower = lowered(message)
	}
	return replaceWords(message, lower, slice.Of(forms(value), lowered))
}

func forms(value string) []string {
	list := []string{value}
	if simple.MatchString(value) {
		return list
	}
	add := func(form string) {
		if !slices.Contains(list, form) {
			list = append(list, form)
		}
	}
	q := strconv.Quote(value)
	add(q[1 : len(q)-1])
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, html := range []bool{false, true} {
		b.Reset()
		e.SetEscapeHTML(html)
		if e.Encode(value) == nil {
			add(b.String()[1 : b.Len()-2]) // without the quotes and the newline
		}
	}
	add(url.QueryEscape(value))
	add(url.PathEscape(value))
	return list
}

// simple matches values that can be written in only one way.
var simple = regexp.MustCompile(`^[A-Za-z0-9._~-]*$`)

// replaceWords replaces words, and beginnings of words that are cut off. A word that is part of a
// longer word stays, unless it is long and contains more than letters.
func replaceWords(message, lower string, words []string) string {
	var b strings.Builder
	from, done := 0, 0
	for {
		at, end := next(lower, from, words)
		if at < 0 {
			break
		}
		found := message[at:end]
		from = end
		mere := len(found) < beginning || letters.MatchString(found)
		if mere && joined(message[:at], found, message[end:]) {
			continue
		}
		b.WriteString(message[done:at])
		b.WriteString(gone)
		done = end
	}
	b.WriteString(message[done:])
	return b.String()
}

// next returns the first place where a word or a beginning of one occurs, and the end of the longest
// match there. at is -1 if there is none.
func next(lower string, from int, words []string) (at, end int) {
	at = -1
	for _, word := range words {
		i := strings.Index(lower[from:], word[:min(len(word), beginning)])
		if i >= 0 && (at < 0 || from+i < at) {
			at = from + i
		}
	}
	if at < 0 {
		return at, 0
	}
	for _, word := range words {
		n := 0
		for n < len(word) && at+n < len(lower) && lower[at+n] == word[n] {
			n++
		}
		if n >= min(len(word), beginning) {
			end = max(end, at+n)
		}
	}
	for end < len(lower) && !utf8.RuneStart(lower[end]) {
		end++
	}
	return at, end
}

// lowered returns s with ASCII capitals in lower case. The length stays the same.
func lowered(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

var letters = regexp.MustCompile(`^\pL*$`)

// joined reports whether found is part of a longer word.
func joined(before, found, after string) bool {
	left, _ := utf8.DecodeLastRuneInString(before)
	first, _ := utf8.DecodeRuneInString(found)
	last, _ := utf8.DecodeLastRuneInString(found)
	right, _ := utf8.DecodeRuneInString(after)
	return joins(left) && joins(first) || joins(last) && joins(right)
}

func joins(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_')
}
