package deferred

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	messageBytes = 4 << 10
	stackBytes   = 16 << 10

	// redactBytes is how much of a message is looked through for values: far more than is kept of it.
	redactBytes = 64 << 10

	// shortest is the length from which a value is taken out wherever it stands; shorter ones only between quotes, for they could be anything.
	shortest = 4

	// mostValues bounds the work for one failure.
	mostValues = 10_000

	gone = "…"
)

// Redact makes an error's message fit to be kept: without the payload and without the values in it, without passwords of addresses and connection strings, valid UTF-8
// without NUL, and of at most 4 KiB.
func Redact(message string, payload json.RawMessage) string {
	message = valid(message)
	if raw := bytes.TrimSpace(payload); len(raw) > 2 { // more than {}
		message = strings.ReplaceAll(message, string(raw), gone)
		var compact bytes.Buffer
		if json.Compact(&compact, raw) == nil {
			message = strings.ReplaceAll(message, compact.String(), gone)
		}
	}
	message = cut(message, redactBytes)
	for _, v := range values(payload) {
		message = without(message, v)
	}
	return cut(passwords(message), messageBytes)
}

// RedactStack does the same for a stack, which has no values in it: at most 16 KiB.
func RedactStack(stack string) string { return cut(passwords(valid(stack)), stackBytes) }

// valid makes text that Postgres takes.
func valid(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// cut shortens text to limit bytes, between two characters.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// The forms that passwords have in URLs, and in connection strings.
var (
	passwordInURL = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@"']*):[^\s"']*@`)
	passwordNamed = regexp.MustCompile(`(?i)\b(password|passwd|pwd|sslpassword|secret|token|api_?key)(\s*[=:]\s*)('(?:[^'\\]|\\.)*'|"[^"]*"|[^\s,;&"']+)`)
)

// passwords takes passwords out of URLs and of connection strings in their other form.
func passwords(s string) string {
	s = passwordInURL.ReplaceAllString(s, "${1}:"+gone+"@")
	return passwordNamed.ReplaceAllString(s, "${1}${2}"+gone)
}

// values answers the strings and numbers in a payload, the longest first. Names of fields are none: columns are called like them.
func values(payload json.RawMessage) []string {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	var root any
	if len(payload) == 0 || d.Decode(&root) != nil {
		return nil
	}
	var found []string
	var walk func(v any)
	walk = func(v any) {
		if len(found) >= mostValues {
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
			for _, field := range v {
				walk(field)
			}
		}
	}
	walk(root)
	slices.SortFunc(found, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(found)
}

// without replaces a value where it stands by itself.
func without(message, value string) string {
	if value == "" {
		return message
	}
	quoted := strconv.Quote(value)
	message = strings.ReplaceAll(message, quoted, `"`+gone+`"`)
	message = strings.ReplaceAll(message, `"`+value+`"`, `"`+gone+`"`)
	message = strings.ReplaceAll(message, `'`+value+`'`, `'`+gone+`'`)
	if utf8.RuneCountInString(value) < shortest {
		return message
	}
	for _, form := range []string{value, quoted[1 : len(quoted)-1]} {
		message = replaceWord(message, form)
	}
	return message
}

// replaceWord replaces a word where no letter or digit of another joins it.
func replaceWord(s, word string) string {
	var b strings.Builder
	for from := 0; ; {
		i := strings.Index(s[from:], word)
		if i < 0 {
			if b.Len() == 0 {
				return s
			}
			b.WriteString(s[from:])
			return b.String()
		}
		at := from + i
		before, _ := utf8.DecodeLastRuneInString(s[:at])
		after, _ := utf8.DecodeRuneInString(s[at+len(word):])
		b.WriteString(s[from:at])
		if joins(before) || joins(after) {
			b.WriteString(word)
		} else {
			b.WriteString(gone)
		}
		from = at + len(word)
	}
}

func joins(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_')
}
