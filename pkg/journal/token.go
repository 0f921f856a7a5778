package journal

import (
	"errors"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/tidemark-go/tidemark/internal/text"
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
	EventID    uuid.UUID // tells it from an event that has its place after a failover
}

// Token returns the event's token, as opaque text. The last token of an append covers all its events
// of that campaign.
func (a Appended) Token() string { return Token{a.CampaignID, a.Seq, a.Position, a.ID}.String() }

// String returns the text that [ParseToken] parses. SQL makes the same of a row of tidemark.append:
// concat_ws('.', 1, position, seq, event_id, campaign_id), with the campaign_id that was passed.
func (t Token) String() string {
	return strings.Join([]string{
		tokenVersion, strconv.FormatInt(t.Position, 10), strconv.FormatInt(t.Seq, 10), t.EventID.String(), t.CampaignID,
	}, ".")
}

// ParseToken parses the text of a token, or returns [ErrInvalidToken].
func ParseToken(token string) (t Token, err error) {
	parts := strings.SplitN(token, ".", 5)
	if len(parts) < 5 || parts[0] != tokenVersion || parts[4] == "" {
		return t, text.Detail(ErrInvalidToken, "invalid token %.300q: pass the text that Appended.Token returned, unchanged",
			token)
	}
	position, err := strconv.ParseInt(parts[1], 10, 64)
	seq, seqErr := strconv.ParseInt(parts[2], 10, 64)
	id, idErr := uuid.Parse(parts[3])
	if err = errors.Join(err, seqErr, idErr); err != nil || position < 1 || seq < 1 {
		return t, text.Detail(ErrInvalidToken, "invalid token %.300q: its position and seq must be numbers from 1, and its "+
			"id a UUID: pass the text that Appended.Token returned, unchanged", token)
	}
	return Token{CampaignID: parts[4], Seq: seq, Position: position, EventID: id}, nil
}
