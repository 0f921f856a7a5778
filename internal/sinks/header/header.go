// Package header writes values of headers, for sinks.
package header

import "fmt"

// Escape writes what a header cannot hold as %XX, as CloudEvents' bindings to HTTP and NATS say:
// all but printable ASCII, and space, double quote and percent. url.PathUnescape reads it back.
func Escape(value string) string {
	plain := func(c byte) bool { return c > ' ' && c <= '~' && c != '"' && c != '%' }
	first := 0
	for first < len(value) && plain(value[first]) {
		first++
	}
	if first == len(value) {
		return value
	}
	b := append(make([]byte, 0, len(value)+8), value[:first]...)
	for i := first; i < len(value); i++ {
		if c := value[i]; plain(c) {
			b = append(b, c)
		} else {
			b = fmt.Appendf(b, "%%%02X", c)
		}
	}
	return string(b)
}
