package pages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// count formats a number with thousands separators.
func count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "−", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// span formats a duration in its two largest units.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "−" + span(-d)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return pair(int(d.Minutes()), "min", int(d.Seconds())%60, "s")
	case d < 24*time.Hour:
		return pair(int(d.Hours()), "h", int(d.Minutes())%60, "min")
	}
	return pair(int(d.Hours())/24, "d", int(d.Hours())%24, "h")
}

func pair(large int, largeUnit string, small int, smallUnit string) string {
	if small == 0 {
		return fmt.Sprintf("%s %s", count(int64(large)), largeUnit)
	}
	return fmt.Sprintf("%s %s %d %s", count(int64(large)), largeUnit, small, smallUnit)
}

// bytesText formats a size in the largest binary unit.
func bytesText(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.4g KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%.4g MiB", float64(n)/(1<<20))
	}
}

// utc formats a time for a person, iso for the datetime attribute.
func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }
func iso(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// ago formats the time since t, or until t.
func ago(now, t time.Time) string {
	switch d := now.Sub(t); {
	case d > -time.Second && d < time.Second:
		return "now"
	case d < 0:
		return "in " + span(-d)
	default:
		return span(d) + " ago"
	}
}

// plural formats a number of things. n is an int or an int64.
func plural(n any, thing string) string {
	number := reflect.ValueOf(n).Int()
	if number != 1 {
		thing += "s"
	}
	return count(number) + " " + thing
}

// tone returns the style of a status: ok, warn, bad, info, neutral, or "" for plain. The status is
// never shown by colour alone.
func tone(status any) string {
	switch strings.ToLower(fmt.Sprint(status)) {
	case "ok", "active", "live", "in step", "ready", "done", "held", "recovered", "alive", "sent", "requeued",
		"resumed":
		return "ok"
	case "warn", "warning", "failed", "failing", "retrying", "behind", "stale", "pending", "draining", "skipped",
		"refused", "infrastructure", "transient", "lock", "expired":
		return "warn"
	case "bad", "error", "critical", "dead", "parked", "gone", "crashed", "permanent", "aborted", "failed again":
		return "bad"
	case "paused", "audit_only", "inline", "across", "not for it":
		return "neutral"
	case "info", "processing", "catching_up", "joining", "copying", "copied", "requested", "running", "replayed", "filing",
		"rebuild_began", "rebuilt", "queued again":
		return "info"
	}
	return ""
}

func word(status any) string {
	s := strings.ReplaceAll(fmt.Sprint(status), "_", " ")
	if s == "" {
		return "unknown"
	}
	if strings.ToUpper(s) == s {
		s = strings.ToLower(s)
	}
	return s
}

// Maximum sizes of shown texts. A block links to the rest; a cell omits it.
const (
	blockBytes = 64 << 10
	cellBytes  = 300
)

// text is foreign text to show as text. Characters that are invisible or change the direction of
// text are replaced by signs with their names.
type text struct {
	Runs  []run
	Shown int // bytes
	Total int
	Cut   bool
	Whole string // URL of the whole text; "": none
}

type run struct {
	Text string
	Sign bool // Text is the name of a character, such as U+202E
}

// block formats a text for a box of its own, line for a cell.
func block(s string) text { return newText(s, blockBytes, true) }
func line(s string) text  { return newText(s, cellBytes, false) }

// blockJSON formats JSON as a block, indented.
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

// odd reports whether a character does not show as itself: controls, direction marks and other format
// characters, zero-width blanks, private use, invalid UTF-8.
func odd(r rune, lines bool) bool {
	switch r {
	case '\n', '\t':
		return !lines
	case utf8.RuneError, '\u2028', '\u2029', '\u115F', '\u1160', '\u3164', '\uFFA0':
		return true
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r)
}
