package journal

import (
	"errors"
	"strconv"
	"strings"
)

// ErrInvalidToken is returned by [ParseToken]. The text names the token and the remedy.
var ErrInvalidToken = errors.New("invalid token")

// tokenVersion begins a token. A position that needs more than a number gets another version.
const tokenVersion = "1"

// Token names an event that was appended, so that a reader can wait until a projection has applied it.
type Token struct {
	CampaignID string
	Seq        int64
	Position   int64
}

// Token returns the event's token, as opaque text. The last token of an append covers all its events
// of that campaign.
func (a Appended) Token() string { return Token{a.CampaignID, a.Seq, a.Position}.String() }

// String returns the text that [ParseToken] parses. SQL makes the same of a row of tidemark.append:
// concat_ws('.', 1, position, seq, campaign_id), with the campaign_id that was passed.
func (t Token) String() string {
	return tokenVersion + "." + strconv.FormatInt(t.Position, 10) + "." + strconv.FormatInt(t.Seq, 10) + "." + t.CampaignID
}

// ParseToken parses the text of a token, or returns [ErrInvalidToken].
func ParseToken(text string) (t Token, err error) {
	parts := strings.SplitN(text, ".", 4)
	if len(parts) < 4 || parts[0] != tokenVersion || parts[3] == "" {
		return t, detailing(ErrInvalidToken, "invalid token %.300q: pass the text that Appended.Token returned, unchanged",
			text)
	}
	position, err := strconv.ParseInt(parts[1], 10, 64)
	seq, seqErr := strconv.ParseInt(parts[2], 10, 64)
	if err = errors.Join(err, seqErr); err != nil || position < 1 || seq < 1 {
		return t, detailing(ErrInvalidToken, "invalid token %.300q: its position and seq are not numbers from 1: pass the "+
			"text that Appended.Token returned, unchanged", text)
	}
	return Token{CampaignID: parts[3], Seq: seq, Position: position}, nil
}
