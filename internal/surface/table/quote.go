package table

import (
	"regexp"
	"strings"
)

// Quote writes a word as a shell reads it, for command lines that users may copy.
func Quote(word string) string {
	if regexp.MustCompile(`^[\w@%+=:,./-]+$`).MatchString(word) {
		return word
	}
	if Visible(word) != word { // as bash, zsh and ksh read it
		return "$'" + strings.ReplaceAll(Visible(strings.ReplaceAll(word, `\`, `\\`)), "'", `\'`) + "'"
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
