// Package text checks the texts and documents that go to Postgres, quotes them for messages, and makes errors
// with a text of their own.
package text

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// AppendJSON appends s as a JSON string.
func AppendJSON(buf []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, _ := json.Marshal(s) // a string cannot fail
			return append(buf, quoted...)
		}
	}
	return append(append(append(buf, '"'), s...), '"')
}

// Shortened quotes s for a message and cuts it to 48 bytes. Invalid UTF-8 is escaped.
func Shortened(s string) string {
	const most = 48
	if len(s) <= most {
		return strconv.Quote(s)
	}
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes)", strconv.Quote(s[:cut]), len(s))
}

// MaxName is the longest name of an event type, or of a wrapping key, in bytes.
const MaxName = 256

// MaxKey is the longest key of a projection, in bytes. With the longest campaign id it fits into an index.
const MaxKey = 1024

// CheckName checks a name of 1 to limit bytes. It returns the reason it is refused, or "".
func CheckName(s string, limit int) string {
	switch {
	case s == "":
		return "is empty: it is required"
	case len(s) > limit:
		return fmt.Sprintf("%s is longer than %d bytes: use a shorter one", Shortened(s), limit)
	}
	return CheckText(s)
}

// CheckText checks whether Postgres' text can hold s. It returns the reason it is refused, or "".
func CheckText(s string) string {
	switch {
	case strings.IndexByte(s, 0) >= 0:
		return Shortened(s) + " holds a NUL character, which Postgres cannot store: remove it"
	case !utf8.ValidString(s):
		return Shortened(s) + " is not valid UTF-8: encode it as UTF-8"
	}
	return ""
}

// CheckObject checks a payload or metadata; an empty one stands for {}. It returns the reason it is refused, or
// "". The reason never quotes it.
func CheckObject(document json.RawMessage) string {
	switch {
	case len(document) == 0:
		return ""
	case !json.Valid(document):
		err := json.Unmarshal(document, new(json.RawMessage))
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return fmt.Sprintf("is not valid JSON, or nested too deep, at byte %d", syntax.Offset)
		}
		return "is not valid JSON"
	case bytes.TrimLeft(document, " \t\r\n")[0] != '{':
		return "must be a JSON object: wrap the value, as in {\"value\": …}"
	}
	return ""
}

// detailed is a sentinel with its own text.
type detailed struct {
	text     string
	sentinel error
}

func (e *detailed) Error() string { return e.text }
func (e *detailed) Unwrap() error { return e.sentinel }

// Detail returns an error with a text of its own that is a sentinel.
func Detail(sentinel error, format string, args ...any) error {
	return &detailed{fmt.Sprintf(format, args...), sentinel}
}
