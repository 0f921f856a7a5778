package journal

import (
	"fmt"
)

// A number in jsonb is a Postgres numeric: it holds this many digits before and after the decimal point.
const (
	maxDigitsBefore = 131072
	maxDigitsAfter  = 16383
)

// jsonProblem is a reason to refuse a document.
type jsonProblem uint8

const (
	jsonFine       jsonProblem = iota
	jsonSyntax                 // not JSON
	jsonNoObject               // JSON, perhaps, but no object
	jsonNotUTF8                // bytes that are no UTF-8
	jsonNUL                    // \u0000, which Postgres' text cannot hold
	jsonSurrogate              // half of a surrogate pair
	jsonTooDeep                // nested deeper than the limit
	jsonHugeNumber             // a number that Postgres' numeric cannot hold
)

// jsonFault says what is wrong with a document and where. Its zero value says that nothing is.
type jsonFault struct {
	problem jsonProblem
	offset  int    // of the byte at fault
	detail  string // for jsonSyntax, what was expected; for jsonNoObject, what was found
}

// reason words the fault for an error message, without quoting the document.
func (f jsonFault) reason(depth int) string {
	switch f.problem {
	case jsonSyntax:
		return fmt.Sprintf("is not valid JSON: expected %s at byte %d", f.detail, f.offset)
	case jsonNoObject:
		return fmt.Sprintf("is %s: it must be a JSON object; wrap the value, as in {\"value\": …}", f.detail)
	case jsonNotUTF8:
		return fmt.Sprintf("has invalid UTF-8 at byte %d: encode text as UTF-8, and bytes as base64", f.offset)
	case jsonNUL:
		return fmt.Sprintf("has the escape \\u0000 at byte %d, which Postgres cannot store: remove it, or encode the "+
			"value as base64", f.offset)
	case jsonSurrogate:
		return fmt.Sprintf("has half of a surrogate pair at byte %d: write the other half, or remove it", f.offset)
	case jsonTooDeep:
		return fmt.Sprintf("is nested deeper than %d levels at byte %d (Limits.PayloadDepth): flatten it", depth, f.offset)
	case jsonHugeNumber:
		return fmt.Sprintf("has a number at byte %d with more digits than Postgres can hold (%d before the decimal point, "+
			"%d after): write it as a string",
			f.offset, maxDigitsBefore, maxDigitsAfter)
	default:
		return ""
	}
}

// scanObject checks in one pass that data is a JSON object which Postgres' jsonb accepts, nested no
// deeper than maxDepth. It allocates nothing. printed is the most that the object can take as
// Postgres prints it, with a space after each comma and colon and with exponents written out:
// 1e9999 takes six bytes here and ten thousand there.
func scanObject(data []byte, maxDepth int) (printed int, fault jsonFault) {
	s := jsonScanner{data: data, maxDepth: maxDepth}
	s.space()
	switch {
	case s.peek() != '{' && s.pos < len(data):
		s.refuseValue()
	case !s.value(0):
	default:
		if s.space(); s.pos < len(data) {
			s.expected("nothing more")
		}
	}
	return len(data) + s.growth, s.fault
}

// jsonScanner walks over a document. Its methods that answer bool stand on the first byte of what
// they read, move past its last one, and answer false once a fault is noted.
type jsonScanner struct {
	data     []byte
	pos      int
	maxDepth int
	growth   int // bytes by which the printed form is longer than the part read so far
	fault    jsonFault
}

func (s *jsonScanner) fail(problem jsonProblem, offset int) bool {
	s.fault = jsonFault{problem: problem, offset: offset}
	return false
}

func (s *jsonScanner) expected(what string) bool {
	s.fault = jsonFault{problem: jsonSyntax, offset: s.pos, detail: what}
	return false
}

// refuseValue notes what stands where an object should.
func (s *jsonScanner) refuseValue() {
	s.fault = jsonFault{problem: jsonNoObject, offset: s.pos}
	switch c := s.peek(); {
	case c == '[':
		s.fault.detail = "an array"
	case c == '"':
		s.fault.detail = "a string"
	case c == 't' || c == 'f':
		s.fault.detail = "a boolean"
	case c == 'n':
		s.fault.detail = "null"
	case c == '-' || isDigit(c):
		s.fault.detail = "a number"
	default:
		s.expected("an object")
	}
}

// peek answers the next byte, and 0, which no document holds, at the end.
func (s *jsonScanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// space moves past white space, of which nothing is printed.
func (s *jsonScanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
			s.growth--
		default:
			return
		}
	}
}

// separator moves past a comma or a colon, which is printed with a space after it.
func (s *jsonScanner) separator() {
	s.pos++
	s.growth++
	s.space()
}

func (s *jsonScanner) value(depth int) bool {
	switch c := s.peek(); {
	case c == '"':
		return s.text()
	case c == '{':
		return s.object(depth + 1)
	case c == '[':
		return s.array(depth + 1)
	case c == '-' || isDigit(c):
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	default:
		return s.expected("a value")
	}
}

func (s *jsonScanner) object(depth int) bool {
	if depth > s.maxDepth {
		return s.fail(jsonTooDeep, s.pos)
	}
	s.pos++
	s.space()
	if s.peek() == '}' {
		s.pos++
		return true
	}
	for {
		if s.peek() != '"' {
			return s.expected("a key in quotes")
		}
		if !s.text() {
			return false
		}
		s.space()
		if s.peek() != ':' {
			return s.expected("a colon")
		}
		s.separator()
		if !s.value(depth) {
			return false
		}
		s.space()
		switch s.peek() {
		case ',':
			s.separator()
		case '}':
			s.pos++
			return true
		default:
			return s.expected("a comma or the end of the object")
		}
	}
}

func (s *jsonScanner) array(depth int) bool {
	if depth > s.maxDepth {
		return s.fail(jsonTooDeep, s.pos)
	}
	s.pos++
	s.space()
	if s.peek() == ']' {
		s.pos++
		return true
	}
	for {
		if !s.value(depth) {
			return false
		}
		s.space()
		switch s.peek() {
		case ',':
			s.separator()
		case ']':
			s.pos++
			return true
		default:
			return s.expected("a comma or the end of the array")
		}
	}
}
