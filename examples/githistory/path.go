package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// encodePath encodes a path, any bytes except NUL, as text. Text stays as it is, with its quotes,
// tabs and newlines. A byte that is not UTF-8 becomes \xHH, and a backslash is doubled. So no two
// paths share an encoding, and each can be decoded.
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

// campaigns builds the ids of one repository's campaigns.
type campaigns struct {
	repository string
	depth      int // number of folders, counted from the root, that make a campaign
}

// maxCampaignBytes is the journal's limit on a campaign id.
const maxCampaignBytes = 256

// prefix returns the prefix of the ids of all campaigns with files. The depth is part of it: at
// another depth the same repository has other campaigns.
func (c campaigns) prefix() string { return fmt.Sprintf("git:%s@%d:", c.repository, c.depth) }

// log returns the campaign that records how far the history was read. It does not start with the
// prefix.
func (c campaigns) log() string { return fmt.Sprintf("git:%s@%d", c.repository, c.depth) }

// of returns the campaign of a file: its folder, down to the depth, or "." for a file at the root.
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
