// Package bom takes the byte order mark off texts, which editors on Windows write before UTF-8.
package bom

import "bytes"

// Trim returns text without the mark.
func Trim(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\ufeff")) }
