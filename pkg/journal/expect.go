package journal

import (
	"github.com/google/uuid"
)

func (e Expect) argument() *int64 {
	if !e.checked {
		return nil
	}
	return &e.seq
}

// Appended says where an event stands in the journal.
type Appended struct {
	CampaignID string
	ID         uuid.UUID
	Seq        int64
	Position   int64
	Duplicate  bool // the event was there before; nothing was written for it
}

// Batch is the events of one campaign in a call of [Journal.AppendAll].
type Batch struct {
	CampaignID string
	Expect     Expect
	Events     []Event
}

// Expect is what the caller believes about a campaign when it appends. The zero value is [Any].
type Expect struct {
	checked bool
	seq     int64
}

// Any appends whatever the campaign holds.
var Any = Expect{}

// None appends only to a campaign without events.
var None = Expect{checked: true}

// Exactly appends only if the campaign's last event is number seq. Exactly(0) is [None].
func Exactly(seq int64) Expect { return Expect{checked: true, seq: seq} }
