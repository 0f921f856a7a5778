package deferred

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

// varying matches what differs between failures of one cause.
var varying = regexp.MustCompile(`"[^"]*"|'[^']*'|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|\d+`)

// Fingerprint answers twelve hexadecimal digits that failures of one cause have in common, whatever the projection, the campaign and the event: those of the
// code and of the message without its numbers, UUIDs and quoted texts.
func Fingerprint(code, message string) string {
	normal := varying.ReplaceAllString(message, "?")
	sum := sha256.Sum256([]byte(code + "\x00" + normal))
	return hex.EncodeToString(sum[:6])
}
