package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// encodePath writes a path, which is any bytes but NUL, as text. Text stays as it is, with its
// quotes, tabs and newlines; a byte that is no UTF-8 becomes \xHH and a backslash is doubled, so
// that two paths never share an encoding and each can be had back.
func encodePath(path string) string {
	if utf8.ValidString(path) && !strings.Contains(path, `\`) {
		return path
	}
	var out strings.Builder
	for i := 0; i < len(path); {
		r, size := utf8.DecodeRuneInString(path[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, path[i])
		case r == '\\':
			out.WriteString(`\\`)
		default:
			out.WriteString(path[i : i+size])
		}
		i += size
	}
	return out.String()
}

// campaigns names the campaigns of one repository.
type campaigns struct {
	repository string
	depth      int // how many folders, counted from the root, make a campaign
}

// maxCampaignBytes is the journal's limit on a campaign id.
const maxCampaignBytes = 256

// prefix starts the ids of all campaigns of files. The depth is part of it: read at another depth, the
// same repository has other campaigns.
func (c campaigns) prefix() string { return fmt.Sprintf("git:%s@%d:", c.repository, c.depth) }

// log is the campaign that records how far the history was read. It does not start with the prefix.
func (c campaigns) log() string { return fmt.Sprintf("git:%s@%d", c.repository, c.depth) }

// of is the campaign of a file: its folder, down to the depth; "." for a file that is in none.
func (c campaigns) of(path string) string {
	folder := "."
	for end, depth := 0, 0; depth < c.depth; depth++ {
		next := strings.IndexByte(path[end:], '/')
		if next < 0 {
			break
		}
		folder = path[:end+next]
		end += next + 1
	}
	id := c.prefix() + encodePath(folder)
	if len(id) <= maxCampaignBytes {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	digest := "~" + hex.EncodeToString(sum[:16])
	return strings.ToValidUTF8(id[:maxCampaignBytes-len(digest)], "") + digest
}
