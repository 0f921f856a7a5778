package text

import "fmt"

// EscapeHeader percent-encodes what a header cannot hold, as CloudEvents' bindings to HTTP and NATS require:
// everything but printable ASCII, and space, double quote and percent. url.PathUnescape decodes it.
func EscapeHeader(value string) string {
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
