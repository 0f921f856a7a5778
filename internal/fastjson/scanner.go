package fastjson

// maxDepth is how deep a value may be nested that is skipped here; encoding/json allows more.
const maxDepth = 500

// scanner goes through JSON. Each method returns false, and leaves it anywhere, if what it expects is not there.
type scanner struct {
	data []byte
	at   int
}

func (s *scanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// token goes past c and the spaces around it, or past the spaces alone.
func (s *scanner) token(c byte) bool {
	s.space()
	if s.at == len(s.data) || s.data[s.at] != c {
		return false
	}
	s.at++
	s.space()
	return true
}

// end says whether nothing is left.
func (s *scanner) end() bool {
	s.space()
	return s.at == len(s.data)
}

// literal goes past a word, or stays where it is.
func (s *scanner) literal(word string) bool {
	if len(s.data)-s.at < len(word) || string(s.data[s.at:s.at+len(word)]) != word {
		return false
	}
	s.at += len(word)
	return true
}

// plain goes past a string without escapes and returns what is between its quotes.
func (s *scanner) plain() ([]byte, bool) {
	if s.at == len(s.data) || s.data[s.at] != '"' {
		return nil, false
	}
	start := s.at + 1
	for i := start; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			s.at = i + 1
			return s.data[start:i], true
		case c == '\\' || c < ' ':
			return nil, false
		}
	}
	return nil, false
}

// integer goes past a whole number of up to 18 digits.
func (s *scanner) integer() (n int64, ok bool) {
	negative := s.literal("-")
	start := s.at
	for s.at < len(s.data) && '0' <= s.data[s.at] && s.data[s.at] <= '9' {
		n = n*10 + int64(s.data[s.at]-'0')
		s.at++
	}
	digits := s.at - start
	if digits == 0 || digits > 18 || digits > 1 && s.data[start] == '0' {
		return 0, false
	}
	if s.at < len(s.data) && (s.data[s.at] == '.' || s.data[s.at] == 'e' || s.data[s.at] == 'E') {
		return 0, false
	}
	if negative {
		n = -n
	}
	return n, true
}

func (s *scanner) digits() bool {
	start := s.at
	for s.at < len(s.data) && '0' <= s.data[s.at] && s.data[s.at] <= '9' {
		s.at++
	}
	return s.at > start
}

// number goes past a number.
func (s *scanner) number() bool {
	s.literal("-")
	if !s.literal("0") && !s.digits() {
		return false
	}
	if s.literal(".") && !s.digits() {
		return false
	}
	if s.literal("e") || s.literal("E") {
		if !s.literal("+") {
			s.literal("-")
		}
		return s.digits()
	}
	return true
}

// skip goes past a value at a depth.
func (s *scanner) skip(depth int) bool {
	if s.at == len(s.data) || depth > maxDepth {
		return false
	}
	switch s.data[s.at] {
	case '"':
		return s.text()
	case '{':
		return s.members('}', depth, func() bool { return s.text() && s.token(':') })
	case '[':
		return s.members(']', depth, func() bool { return true })
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

// members goes past what is between brackets. Before each value comes what key expects.
func (s *scanner) members(closing byte, depth int, key func() bool) bool {
	s.at++
	if s.token(closing) {
		return true
	}
	for {
		if !key() || !s.skip(depth+1) {
			return false
		}
		if s.token(',') {
			continue
		}
		return s.token(closing)
	}
}

// text goes past a string.
func (s *scanner) text() bool {
	if s.at == len(s.data) || s.data[s.at] != '"' {
		return false
	}
	for s.at++; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			return true
		case c < ' ':
			return false
		case c == '\\':
			if s.at++; !s.escaped() {
				return false
			}
		}
	}
	return false
}

// escaped says whether an escape is one; it ends on its last character.
func (s *scanner) escaped() bool {
	if s.at == len(s.data) {
		return false
	}
	switch s.data[s.at] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		for range 4 {
			if s.at++; s.at == len(s.data) || !hexadecimal(s.data[s.at]) {
				return false
			}
		}
		return true
	}
	return false
}

func hexadecimal(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
