package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// oddPaths returns names that git allows and people regret.
func oddPaths() []string {
	return []string{
		`"quoted"`, `it's`, `back\slash`, `\x41`, `\\x41`, "new\nline", "tab\tbed", "carriage\rreturn", " leading",
		"trailing ", "-dash", "--",
		":colon", ":100644 100644 0 0 A", "percent%41", "latin1-\xe9", "\xff\xfe", "half-\xe2\x82", "\xed\xa0\x80surrogate",
		"\x01\x1b[31m\x7f",
		"über/straße/日本語/🐳", "e\u0301", "\u00e9", "dir with space/\xff\xff/x\ny", "$HOME", "`id`", "*", "a,b", "{}",
		"nul\\x00",
		strings.Repeat("d/", 200) + "deep", strings.Repeat("n", 255),
	}
}

func TestEncodePath(t *testing.T) {
	t.Parallel()

	t.Run("can be undone", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(rt *rapid.T) {
			path := rapid.OneOf(
				rapid.SampledFrom(oddPaths()),
				rapid.Map(rapid.SliceOfN(rapid.ByteRange(1, 255), 1, 40), func(b []byte) string { return string(b) }),
				rapid.StringOf(rapid.RuneFrom([]rune{'\\', 'x', '4', '1', 'é', utf8.RuneError})),
			).Draw(rt, "path")
			encoded := encodePath(path)
			if !utf8.ValidString(encoded) {
				rt.Fatalf("%q became %q, which is no UTF-8", path, encoded)
			}
			if decoded := decodePath(rt, encoded); decoded != path {
				rt.Fatalf("%q became %q, which means %q", path, encoded, decoded)
			}
		})
	})

	t.Run("leaves ordinary names alone", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{"README.md", "a b/ü\n\"", "100%/\u00e9"} {
			if encoded := encodePath(path); encoded != path {
				t.Errorf("%q became %q", path, encoded)
			}
		}
	})
}

func TestCampaigns(t *testing.T) {
	t.Parallel()

	t.Run("are folders down to the depth", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			depth      int
			path, want string
		}{
			{0, "a/b/c", "git:r@0:."},
			{1, "file", "git:r@1:."},
			{1, "a/file", "git:r@1:a"},
			{1, "a/b/file", "git:r@1:a"},
			{2, "file", "git:r@2:."},
			{2, "a/file", "git:r@2:a"},
			{2, "a/b/file", "git:r@2:a/b"},
			{2, "a/b/c/file", "git:r@2:a/b"},
			{1, "\xff/file", `git:r@1:\xff`},
		} {
			if got := (campaigns{repository: "r", depth: c.depth}).of(c.path); got != c.want {
				t.Errorf("%q at depth %d is in %q, want %q", c.path, c.depth, got, c.want)
			}
		}
	})

	t.Run("of long folder names fit the journal and differ", func(t *testing.T) {
		t.Parallel()
		names := campaigns{repository: "r", depth: 1}
		seen := make(map[string]bool)
		for _, folder := range []string{
			strings.Repeat("\xff", 255), strings.Repeat("\xff", 254),
			strings.Repeat("é", 127) + "a", strings.Repeat("é", 127),
		} {
			id := names.of(folder + "/file")
			if len(id) > maxCampaignBytes || !utf8.ValidString(id) || seen[id] {
				t.Errorf("campaign id %q has %d bytes, valid %v, taken %v", id, len(id), utf8.ValidString(id), seen[id])
			}
			seen[id] = true
		}
	})
}
