package table

import "testing"

func TestQuoteWritesAWordAsAShellReadsIt(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"oak-7": "oak-7", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "": "''", "a\tb": `$'a\tb'`,
		"it's\n\\": `$'it\'s\n\\'`,
	} {
		if got := Quote(word); got != want {
			t.Errorf("%q is quoted %s, want %s", word, got, want)
		}
	}
}
