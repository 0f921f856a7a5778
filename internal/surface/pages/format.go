package pages

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// count writes a number with its thousands apart.
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

// bounded writes a number that was counted up to a bound, and no further.
func bounded(n, bound int64) string {
	if bound > 0 && n >= bound {
		return count(bound) + "+"
	}
	return count(n)
}

// span writes a length of time in its two largest units.
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

// bytesText writes a size in the largest binary unit.
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

// utc writes a time for a person; iso for a machine, as the datetime attribute has it.
func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }
func iso(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// ago says how long before now a time was, or how long after.
func ago(now, t time.Time) string {
	d := now.Sub(t)
	if d < 0 {
		if d > -time.Second {
			return "now"
		}
		return "in " + span(-d)
	}
	if d < time.Second {
		return "now"
	}
	return span(d) + " ago"
}

// plural names a number of things; n is an int or an int64.
func plural(n any, thing string) string {
	number := reflect.ValueOf(n).Int()
	if number != 1 {
		thing += "s"
	}
	return count(number) + " " + thing
}

// tone answers how a status is shown: ok, warn, bad, info, held, or plain. Beside the colour there
// is always a sign and the word.
func tone(status any) string {
	switch strings.ToLower(fmt.Sprint(status)) {
	case "ok", "active", "live", "in step", "ready", "done", "held", "recovered", "alive", "sent", "requeued",
		"retried", "resumed":
		return "ok"
	case "warn", "warning", "failed", "failing", "retrying", "behind", "stale", "pending", "draining", "skipped",
		"refused", "infrastructure", "transient", "lock", "expired":
		return "warn"
	case "bad", "error", "critical", "dead", "parked", "gone", "crashed", "permanent", "aborted", "failed again":
		return "bad"
	case "paused", "audit_only", "inline", "not for it":
		return "held"
	case "info", "processing", "rebuilding", "joining", "copying", "copied", "requested", "running", "replayed", "filing",
		"rebuild_began", "rebuilt", "queued again":
		return "info"
	}
	return ""
}

// word answers a status as a person reads it.
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
