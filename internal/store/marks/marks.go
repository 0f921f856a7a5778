// Package marks checks and counts consumers' marks in tidemark.inbox, which package inbox writes.
// Its functions are safe for concurrent use.
package marks

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// mostBytes is the longest name of a consumer.
const mostBytes = 200

// Check returns an error for an invalid mark. The consumer's name must have 1 to 200 bytes of UTF-8
// without a zero byte. The event must have an id and a campaign, whose id is UTF-8 without a zero
// byte.
func Check(consumer, campaignID string, eventID uuid.UUID) error {
	switch {
	case consumer == "":
		return fmt.Errorf("the consumer has no name: give one that stays the same, e.g. invoices")
	case len(consumer) > mostBytes:
		return fmt.Errorf("the consumer's name has %d bytes, it may have %d", len(consumer), mostBytes)
	case !isText(consumer):
		return fmt.Errorf("the consumer's name %q is not UTF-8, or has a zero byte", consumer)
	case eventID == uuid.Nil:
		return fmt.Errorf("the event for consumer %q has no id: marks are kept by campaign and id", consumer)
	case campaignID == "":
		return fmt.Errorf("event %s for consumer %q has no campaign: an id is unique within its campaign alone; "+
			"give the campaign's id, or the sender's name where events have none", eventID, consumer)
	case !isText(campaignID):
		return fmt.Errorf("the campaign of event %s, %q, is not UTF-8, or has a zero byte", eventID, campaignID)
	}
	return nil
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// Statistics summarizes the marks of all consumers.
type Statistics struct {
	Rows int64 // the planner's estimate, as of the last vacuum or analyze
	// when the next mark expires or, in the past, since when it can be pruned; nil: no marks
	OldestExpiry *time.Time
	At           time.Time // the database's time
}

// Stats reads the inbox's statistics. It is fast however large the inbox is.
func Stats(ctx context.Context, db rows.Querier) (Statistics, error) {
	return rows.One(ctx, db, pgx.RowToStructByPos[Statistics], "look at the inbox", queryStats)
}
