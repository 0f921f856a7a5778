package erasure

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"
)

// hash is that of an erased value.
type hash = [sha256.Size]byte

// values are the hashes of what an erasure has erased.
type values struct {
	key    []byte
	hashes map[hash]bool
	words  []int // of the values, each number once
}

// hits adds the erased values in a text to found: words in a row, in small or capital letters. It stops at
// the first if found is nil, and reports whether there is one.
func (v *values) hits(text string, found map[hash]bool) bool {
	hit := v.spoken(strings.Map(small, text), found)
	if strings.Contains(text, `\`) && (found != nil || !hit) {
		hit = v.hits(unescaped.Replace(text), found) || hit
	}
	return hit
}

//nolint:gochecknoglobals // never written
var unescaped = strings.NewReplacer(`\n`, " ", `\r`, " ", `\t`, " ", `\`, " ")

// spoken looks for values in a text in small letters, as tidemark.spoken makes them.
func (v *values) spoken(text string, found map[hash]bool) (hit bool) {
	line := make([]byte, 0, len(text))
	var starts, ends []int
	for rest := text; rest != ""; {
		from := strings.IndexFunc(rest, spokenRune)
		if from < 0 {
			break
		}
		rest = rest[from:]
		to := strings.IndexFunc(rest, func(r rune) bool { return !spokenRune(r) })
		if to < 0 {
			to = len(rest)
		}
		if len(starts) > 0 {
			line = append(line, ' ')
		}
		starts = append(starts, len(line))
		line = append(line, rest[:to]...)
		ends, rest = append(ends, len(line)), rest[to:]
	}
	keyed := append(make([]byte, 0, len(v.key)+len(line)), v.key...)
	for _, words := range v.words {
		for i := 0; i+words <= len(starts); i++ {
			h := sha256.Sum256(append(keyed, line[starts[i]:ends[i+words-1]]...))
			if !v.hashes[h] {
				continue
			}
			if hit = true; found == nil {
				return true
			}
			found[h] = true
		}
	}
	return hit
}

// spokenRune reports whether a character is a part of words.
func spokenRune(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	default:
		return r > 0xbf && (r < 0x2000 || r > 0x206f) && (r < 0x3000 || r > 0x303f)
	}
}

// small returns the small letter of a Latin, Greek or Cyrillic one.
func small(r rune) rune {
	switch {
	case r >= 'A' && r <= 'Z':
		return r + 'a' - 'A'
	case r >= 0xc0 && r <= 0x17f && r != 0x130, r >= 0x370 && r <= 0x52f, r >= 0x1e00 && r <= 0x1eff:
		return unicode.ToLower(r)
	default:
		return r
	}
}

// column looks for values in a column, as Postgres prints it.
func (v *values) column(text []byte, oid uint32, found map[hash]bool) (hit bool) {
	switch oid {
	case pgtype.JSONOID, pgtype.JSONBOID:
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		for {
			token, err := decoder.Token()
			if err != nil {
				return hit || err != io.EOF && v.hits(string(text), found)
			}
			word := ""
			switch token := token.(type) {
			case string:
				word = token
			case json.Number:
				word = token.String()
			}
			if word != "" && v.hits(word, found) {
				if hit = true; found == nil {
					return true
				}
			}
		}
	case pgtype.ByteaOID:
		plain, err := hex.DecodeString(strings.TrimPrefix(string(text), `\x`))
		return err == nil && utf8.Valid(plain) && v.hits(string(plain), found)
	default:
		return v.hits(string(text), found)
	}
}

// without leaves values out.
func (v *values) without(some map[hash]bool) *values {
	left := &values{key: v.key, words: slices.Clone(v.words), hashes: map[hash]bool{}}
	for h := range v.hashes {
		if !some[h] {
			left.hashes[h] = true
		}
	}
	return left
}
