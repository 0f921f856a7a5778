package journal

import (
	"encoding/binary"
	"unicode/utf8"
)

func (s *jsonScanner) word(w string) bool {
	if end := s.pos + len(w); end <= len(s.data) && string(s.data[s.pos:end]) == w {
		s.pos = end
		return true
	}
	return s.expected(w)
}

// text reads a string or a key.
func (s *jsonScanner) text() bool {
	s.pos++
	for {
		for s.pos+8 <= len(s.data) && isPlain(binary.LittleEndian.Uint64(s.data[s.pos:])) {
			s.pos += 8
		}
		if s.pos >= len(s.data) {
			return s.expected("the end of a string")
		}
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return true
		case c == '\\':
			if !s.escape() {
				return false
			}
		case c < ' ':
			return s.expected("no control character in a string: escape it")
		case c < utf8.RuneSelf:
			s.pos++
		default:
			r, size := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && size == 1 {
				return s.fail(jsonNotUTF8, s.pos)
			}
			s.pos += size
		}
	}
}

// isPlain reports whether each of the eight bytes in w is ASCII, no control character, no quote and
// no backslash. Each term sets the top bit of the lowest byte that breaks its rule; a borrow can
// only spread from such a byte.
func isPlain(w uint64) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	broken := w | (w - ones*' ') | (w ^ ones*'"' - ones) | (w ^ ones*'\\' - ones)
	return broken&tops == 0
}

func (s *jsonScanner) escape() bool {
	start := s.pos
	s.pos++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos++
		return true
	case 'u':
	default:
		return s.expected("a known escape")
	}
	unit, ok := s.codeUnit()
	switch {
	case !ok:
		return false
	case unit == 0:
		return s.fail(jsonNUL, start)
	case unit < 0xD800 || unit > 0xDFFF:
		return true
	case unit >= 0xDC00 || s.peek() != '\\' || s.pos+1 >= len(s.data) || s.data[s.pos+1] != 'u':
		return s.fail(jsonSurrogate, start)
	}
	s.pos++
	low, ok := s.codeUnit()
	if ok && (low < 0xDC00 || low > 0xDFFF) {
		return s.fail(jsonSurrogate, start)
	}
	return ok
}

// codeUnit reads the u and the four hexadecimal digits of an escape.
func (s *jsonScanner) codeUnit() (uint32, bool) {
	s.pos++
	var unit uint32
	for range 4 {
		c := s.peek()
		switch {
		case isDigit(c):
			unit = unit<<4 | uint32(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			unit = unit<<4 | uint32(c|0x20-'a'+10)
		default:
			return 0, s.expected("four hexadecimal digits")
		}
		s.pos++
	}
	return unit, true
}

func (s *jsonScanner) number() bool {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	before, after, exponent := 1, 0, 0
	switch c := s.peek(); {
	case c == '0':
		s.pos++
	case isDigit(c):
		before = s.digits()
	default:
		return s.expected("a digit")
	}
	if s.peek() == '.' {
		s.pos++
		if after = s.digits(); after == 0 {
			return s.expected("a digit")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		var ok bool
		if exponent, ok = s.exponent(); !ok {
			return false
		}
		before, after = max(before+exponent, 1), max(after-exponent, 0)
		s.growth += max(0, before+after+len("-.")-(s.pos-start))
	}
	if before > maxDigitsBefore || after > maxDigitsAfter {
		return s.fail(jsonHugeNumber, start)
	}
	return true
}

// digits moves past a run of digits and answers its length.
func (s *jsonScanner) digits() int {
	start := s.pos
	for isDigit(s.peek()) {
		s.pos++
	}
	return s.pos - start
}

// exponent reads the e, the sign and the digits. What is far out of range stays there, without overflowing.
func (s *jsonScanner) exponent() (int, bool) {
	const farOut = 1 << 20
	s.pos++
	negative := s.peek() == '-'
	if negative || s.peek() == '+' {
		s.pos++
	}
	if !isDigit(s.peek()) {
		return 0, s.expected("a digit of the exponent")
	}
	exponent := 0
	for ; isDigit(s.peek()); s.pos++ {
		exponent = min(exponent*10+int(s.data[s.pos]-'0'), farOut)
	}
	if negative {
		return -exponent, true
	}
	return exponent, true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
