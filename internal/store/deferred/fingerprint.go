package deferred

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// varying matches what differs between failures of one cause.
var varying = regexp.MustCompile(`"[^"]*"|'[^']*'|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|\d+`)

// Fingerprint answers twelve hexadecimal digits that failures of one cause have in common, whatever
// the projection, the campaign and the event: those of the code and of the message without its
// numbers, UUIDs and quoted texts.
func Fingerprint(code, message string) string {
	normal := varying.ReplaceAllString(message, "?")
	sum := sha256.Sum256([]byte(code + "\x00" + normal))
	return hex.EncodeToString(sum[:6])
}

// Pattern answers a regular expression, as a filter's MessagePattern has it, for messages that
// differ from this one in numbers, UUIDs and quoted texts alone. Of a long message it has the
// beginning of the first line.
func Pattern(message string) string {
	const (
		most   = 120
		varies = `(?:"[^"]*"|'[^']*'|[0-9a-fA-F-]{36}|\d+)`
	)
	whole := true
	if i := strings.IndexAny(message, "\r\n"); i >= 0 {
		message, whole = message[:i], false
	}
	if len(message) > most {
		message, whole = strings.ToValidUTF8(message[:most], ""), false
	}
	var b strings.Builder
	b.WriteString("^")
	from := 0
	for _, at := range varying.FindAllStringIndex(message, -1) {
		b.WriteString(regexp.QuoteMeta(message[from:at[0]]) + varies)
		from = at[1]
	}
	b.WriteString(regexp.QuoteMeta(message[from:]))
	if whole {
		b.WriteString("$")
	}
	return b.String()
}
