package sqlfile

import "strings"

// tokenKind tells apart what the compiler of SQL files treats differently. Everything else is symbol.
type tokenKind int

const (
	symbol           tokenKind = iota // one character: an operator's part, a bracket, a comma …
	word                              // a keyword or an unquoted identifier
	quotedIdentifier                  // "Sessions"
	literal                           // a string of any kind, or a number
	placeholder                       // $1
	lineComment                       // -- to the end of the line
	blockComment                      // /* … */, which Postgres lets nest
)

// token is a stretch of the source. White space belongs to no token.
type token struct {
	kind tokenKind
	text string
	pos  int // byte offset in the source
	line int // from 1
}

// is reports whether t is the keyword, which is given in lower case.
func (t token) is(keyword string) bool {
	return t.kind == word && strings.EqualFold(t.text, keyword)
}

// isAny reports whether t is one of the keywords, which are given in lower case.
func (t token) isAny(keywords ...string) bool {
	for _, k := range keywords {
		if t.is(k) {
			return true
		}
	}
	return false
}

// identifier answers the name that t stands for, as Postgres folds it.
func (t token) identifier() (name string, ok bool) {
	switch t.kind {
	case word:
		return strings.ToLower(t.text), true
	case quotedIdentifier:
		inside := strings.TrimSuffix(strings.TrimPrefix(t.text, `"`), `"`)
		return strings.ReplaceAll(inside, `""`, `"`), true
	default:
		return "", false
	}
}

// lexer cuts SQL into tokens by the rules of Postgres' own scanner with standard_conforming_strings on.
type lexer struct {
	src    string
	pos    int
	line   int
	tokens []token
	report func(line int, format string, args ...any)
}

// lex cuts src into tokens. A string, quoted name or comment that never ends is reported where it begins.
func lex(src string, report func(line int, format string, args ...any)) []token {
	l := &lexer{src: src, line: 1, report: report}
	for l.pos < len(src) {
		l.next()
	}
	return l.tokens
}

func (l *lexer) next() {
	c := l.src[l.pos]
	rest := l.src[l.pos:]
	switch {
	case isSpace(c):
		if c == '\n' {
			l.line++
		}
		l.pos++
	case strings.HasPrefix(rest, "--"):
		l.emit(lineComment, lineEnd(rest))
	case strings.HasPrefix(rest, "/*"):
		n, ok := blockCommentEnd(rest)
		l.emitClosed(blockComment, n, ok, "comment")
	case c == '\'':
		n, ok := quotedEnd(rest, '\'', false)
		l.emitClosed(literal, n, ok, "string")
	case c == '"':
		n, ok := quotedEnd(rest, '"', false)
		l.emitClosed(quotedIdentifier, n, ok, "quoted name")
	case c == '$':
		l.dollar(rest)
	case isDigit(c):
		l.emit(literal, spanWhile(rest, func(c byte) bool { return isDigit(c) || isLetter(c) || c == '.' }))
	case isLetter(c):
		l.word(rest)
	default:
		l.emit(symbol, 1)
	}
}

// word reads an identifier or keyword, or the prefix of a string: E'…' escapes with backslashes, the
// other prefixes do not.
func (l *lexer) word(rest string) {
	n := spanWhile(rest, isIdentifierPart)
	if n == 1 && (rest[0] == 'e' || rest[0] == 'E') && strings.HasPrefix(rest[1:], "'") {
		end, ok := quotedEnd(rest[1:], '\'', true)
		l.emitClosed(literal, end+1, ok, "string")
		return
	}
	l.emit(word, n)
}

// dollar reads $1, $$…$$, $tag$…$tag$, or a lone dollar sign.
func (l *lexer) dollar(rest string) {
	if n := spanWhile(rest[1:], isDigit); n > 0 {
		l.emit(placeholder, 1+n)
		return
	}
	tag := 1 + spanWhile(rest[1:], func(c byte) bool { return isLetter(c) || isDigit(c) })
	if tag >= len(rest) || rest[tag] != '$' {
		l.emit(symbol, 1)
		return
	}
	quote := rest[:tag+1]
	end := strings.Index(rest[len(quote):], quote)
	if end < 0 {
		l.emitClosed(literal, len(rest), false, "string "+quote)
		return
	}
	l.emit(literal, 2*len(quote)+end)
}

func (l *lexer) emitClosed(kind tokenKind, n int, closed bool, what string) {
	if !closed {
		l.report(l.line, "%s never ends", what)
	}
	l.emit(kind, n)
}

func (l *lexer) emit(kind tokenKind, n int) {
	text := l.src[l.pos : l.pos+n]
	l.tokens = append(l.tokens, token{kind: kind, text: text, pos: l.pos, line: l.line})
	l.line += strings.Count(text, "\n")
	l.pos += n
}

// quotedEnd answers the length of the quoted text that s begins with, and whether it ends at all. A
// doubled quote stands for one.
func quotedEnd(s string, quote byte, backslash bool) (n int, closed bool) {
	for i := 1; i < len(s); i++ {
		switch {
		case backslash && s[i] == '\\':
			i++
		case s[i] == quote && i+1 < len(s) && s[i+1] == quote:
			i++
		case s[i] == quote:
			return i + 1, true
		}
	}
	return len(s), false
}

// blockCommentEnd answers the length of the comment that s begins with, and whether it ends at all.
func blockCommentEnd(s string) (n int, closed bool) {
	depth := 0
	for i := 0; i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], "/*"):
			depth++
			i += 2
		case strings.HasPrefix(s[i:], "*/"):
			depth--
			i += 2
			if depth == 0 {
				return i, true
			}
		default:
			i++
		}
	}
	return len(s), false
}

func lineEnd(s string) int {
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		return i
	}
	return len(s)
}

func spanWhile(s string, in func(byte) bool) int {
	for i := range len(s) {
		if !in(s[i]) {
			return i
		}
	}
	return len(s)
}

func isSpace(c byte) bool { return c == ' ' || ('\t' <= c && c <= '\r') }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isLetter counts every byte beyond ASCII as a letter, as Postgres does.
func isLetter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= 0x80
}

func isIdentifierPart(c byte) bool { return isLetter(c) || isDigit(c) || c == '$' }
