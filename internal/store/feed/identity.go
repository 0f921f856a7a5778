package feed

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/google/uuid"
)

// uuidBytes is how long the text of a UUID is.
const uuidBytes = 36

// Identity is what tells an event from all others, as one piece of text: its id, a slash, and its
// campaign's id, percent-encoded, as "018c5f3e-0000-7000-8000-000000000001/camp%2F1". An id alone is
// unique within its campaign only. The text is ASCII without spaces and dots.
func (e *Event) Identity() string {
	if e.CampaignID == "" {
		return e.ID.String()
	}
	// A webhook-id has no dots: they part what is signed.
	return e.ID.String() + "/" + strings.ReplaceAll(url.PathEscape(e.CampaignID), ".", "%2E")
}

// IdentityUUID is the identity where only a UUID fits: version 5, of the campaign's id in the
// namespace of the event's.
func (e *Event) IdentityUUID() uuid.UUID { return uuid.NewSHA1(e.ID, []byte(e.CampaignID)) }

// ParseIdentity takes apart what [Event.Identity] has put together, and refuses all else. A UUID
// alone is an event without a campaign, as other senders have them.
func ParseIdentity(identity string) (campaignID string, eventID uuid.UUID, err error) {
	id, campaign, found := strings.Cut(identity, "/")
	if len(id) != uuidBytes {
		return "", uuid.Nil, fmt.Errorf("identity %.300q does not begin with the 36 characters of a UUID", identity)
	}
	e := Event{}
	if e.ID, err = uuid.Parse(id); err == nil && found {
		e.CampaignID, err = url.PathUnescape(campaign)
	}
	if err != nil {
		return "", uuid.Nil, fmt.Errorf("identity %.300q: %w", identity, err)
	}
	if e.ID == uuid.Nil || e.Identity() != identity {
		return "", uuid.Nil, fmt.Errorf("identity %.300q is not one of an event: want UUID/CAMPAIGN", identity)
	}
	return e.CampaignID, e.ID, nil
}
