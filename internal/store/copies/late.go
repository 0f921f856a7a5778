package copies

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Late is an event that was appended later than events at higher positions. Readers of the journal that had
// passed its position have not seen it. A copy whose sequence was behind has such events, and so does a
// server whose clock has gone back.
type Late struct {
	Position   int64
	CampaignID string
	Seq        int64
	EventID    uuid.UUID
	Type       string
	RecordedAt time.Time // time of its append
	Before     time.Time // time of the append of an event at a higher position
}

// Walk is a place in a search for late events, which begins at the end of the journal.
type Walk struct {
	Below int64     // events at and above this position were looked at; 0: none yet
	First time.Time // earliest append among these
}

// lateWindow is the number of events that one statement reads.
const lateWindow = 10_000

// FindLate looks at the next 10,000 events of a walk. next is nil at the beginning of the journal.
func FindLate(ctx context.Context, db rows.Querier, walk Walk) (found []Late, next *Walk, err error) {
	var e Late
	var read int
	var late bool
	next = &Walk{}
	if err := rows.Each(ctx, db,
		[]any{&e.Position, &e.CampaignID, &e.Seq, &e.EventID, &e.Type, &e.RecordedAt, &e.Before, &late, &next.First},
		func() {
			if read++; late {
				found = append(found, e)
			}
			next.Below = e.Position
		}, fmt.Sprintf("look for late events below position %d", walk.Below), queryLate, walk.Below, walk.First,
		lateWindow); err != nil {
		return nil, nil, err
	}
	if read < lateWindow {
		next = nil
	}
	return found, next, nil
}
