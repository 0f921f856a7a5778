package erasure

import (
	"crypto/sha256"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestTheDatabaseSpeaksAsTheSearchDoes compares each character between two letters.
func TestTheDatabaseSpeaksAsTheSearchDoes(t *testing.T) {
	t.Parallel()
	rows, err := pgtest.New(t).Query(t.Context(), `SELECT i, tidemark.spoken('a' || chr(i) || 'b')
		FROM generate_series(1, 131071) i WHERE i NOT BETWEEN 55296 AND 57343`)
	if err != nil {
		t.Fatal(err)
	}
	var r rune
	var got string
	differ := 0
	if _, err := pgx.ForEachRow(rows, []any{&r, &got}, func() error {
		want := "a" + string(small(r)) + "b"
		if !spokenRune(small(r)) {
			want = "a b"
		}
		if got != want && utf8.ValidRune(r) {
			if differ++; differ < 20 {
				t.Errorf("%U: the database says %q, the search %q", r, got, want)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func FuzzAValueIsFoundInAnyText(f *testing.F) {
	f.Add("mail to ", " please")
	f.Add(`{"a": "`, `"}`)
	f.Add("\x00\\n", "\\")
	v := &values{key: make([]byte, 32), hashes: map[hash]bool{}, words: []int{3}}
	v.hashes[sha256.Sum256(append(slices.Clone(v.key), "ann example com"...))] = true
	f.Fuzz(func(t *testing.T, before, after string) {
		if text := before + " Ann@Example.com " + after; !v.hits(text, nil) {
			t.Errorf("not found in %q", text)
		}
	})
}
