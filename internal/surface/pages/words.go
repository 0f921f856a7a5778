package pages

import (
	"fmt"
	"strings"
)

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
