package pages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sizes up to which texts are shown; the rest is behind a link, or left out of a table's cell.
const (
	blockBytes = 64 << 10
	cellBytes  = 300
)

// text is text from outside, to be shown as what it is: what is invisible, or turns the
// direction of what follows, stands there as a sign with its name.
type text struct {
	Runs  []run
	Shown int // bytes
	Total int
	Cut   bool
	Whole string // where all of it is; "": nowhere
}

type run struct {
	Text string
	Sign bool // Text is the name of a character, such as U+202E
}

// block is a text for a box of its own; line one for a cell.
func block(s string) text { return newText(s, blockBytes, true) }
func line(s string) text  { return newText(s, cellBytes, false) }

// blockJSON is block, indented.
func blockJSON(raw json.RawMessage) text {
	total := len(raw)
	if total <= 4*blockBytes {
		var indented bytes.Buffer
		if json.Indent(&indented, raw, "", "  ") == nil {
			raw = indented.Bytes()
		}
	}
	t := block(string(raw))
	t.Total = max(total, t.Shown)
	return t
}

func newText(s string, limit int, lines bool) text {
	t := text{Total: len(s)}
	if len(s) > limit {
		for limit > 0 && !utf8.RuneStart(s[limit]) {
			limit--
		}
		s, t.Cut = s[:limit], true
	}
	t.Shown = len(s)
	for s != "" {
		at := strings.IndexFunc(s, func(r rune) bool { return odd(r, lines) })
		if at < 0 {
			t.Runs = append(t.Runs, run{Text: s})
			break
		}
		if at > 0 {
			t.Runs = append(t.Runs, run{Text: s[:at]})
		}
		r, size := utf8.DecodeRuneInString(s[at:])
		name := fmt.Sprintf("U+%04X", r)
		if r == utf8.RuneError && size == 1 {
			name = fmt.Sprintf("\\x%02X", s[at])
		}
		t.Runs = append(t.Runs, run{Text: name, Sign: true})
		s = s[at+size:]
	}
	return t
}

// odd tells characters that are not seen as what they are: controls, directions and other formats,
// blanks of no width, bytes that are no UTF-8.
func odd(r rune, lines bool) bool {
	switch r {
	case '\n', '\t':
		return !lines
	case utf8.RuneError, '\u2028', '\u2029', '\u115F', '\u1160', '\u3164', '\uFFA0':
		return true
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r)
}
