package lookback

import (
	"encoding/json"
	"time"
)

// VerifyRequest chooses what to verify: named campaigns, a sample, or all.
type VerifyRequest struct {
	Projection string
	Campaigns  []string
	Sample     int  // this many campaigns, at random
	All        bool // every campaign of the journal, and rows of campaigns that are not in it

	// Ignore names columns not to compare, such as the time of the write: "column", or "table.column".
	// Columns that Postgres numbers are never compared.
	Ignore []string

	Concurrency int // connections to verify on; default that of the projector

	// These, if set, are called during the work, never two at a time. OnCampaign gets each campaign
	// with differences. OnDifference gets the differences, at most the first 1000 of a batch of up to
	// 64 campaigns. OnResolution gets each event that is left out because an operator resolved it.
	// OnProgress is called after each batch.
	OnCampaign   func(campaignID string)
	OnDifference func(Difference)
	OnResolution func(Resolution)
	OnProgress   func(VerifyReport)
}

// VerifyReport holds the counts of a verification.
type VerifyReport struct {
	Campaigns int64    // verified
	Total     int64    // to be verified, as far as known
	Events    int64    // applied on the way
	Skipped   int64    // campaigns in which the projection is being rebuilt
	Resolved  int64    // events left out because operators resolved them
	Unchecked []string // tables without a text column campaign_id, which are not verified
	Tables    []VerifiedTable

	Differing int64 // campaigns with differences
	Failed    int64 // of these, campaigns that cannot be applied from the first event
	Strays    int64 // rows of campaigns that are not in the journal
}

// VerifiedTable counts the rows of a table.
type VerifiedTable struct {
	Table                     string
	Rows                      int64 // expected by the journal, in the verified campaigns
	Missing, Extra, Different int64
}

// Differences returns the number of differences.
func (r VerifyReport) Differences() int64 {
	n := r.Failed + r.Strays
	for _, t := range r.Tables {
		n += t.Missing + t.Extra + t.Different
	}
	return n
}

// DifferenceKind is the kind of difference.
type DifferenceKind string

// The kinds of differences.
const (
	DifferenceMissing   DifferenceKind = "missing"   // the journal implies the row, but it is not there
	DifferenceExtra     DifferenceKind = "extra"     // the row should not be there
	DifferenceDifferent DifferenceKind = "different" // the row is there, with other values
	DifferenceStray     DifferenceKind = "stray"     // the row's campaign is not in the journal
	DifferenceFailed    DifferenceKind = "failed"    // the campaign cannot be applied from its first event
)

// Difference is a row that differs from what the journal implies.
type Difference struct {
	Kind       DifferenceKind
	CampaignID string
	Table      string          // "" if Kind is "failed"
	Key        json.RawMessage // an array: the primary key's values; nil: the table has none
	Want, Got  json.RawMessage // the row as an object; nil: no such row
	Columns    []string        // the differing columns, in order
	Err        error           // why it failed
}

// Resolution is an event that an operator has resolved for a projection, which leaves it out.
type Resolution struct {
	CampaignID string
	Projection string // never NAME~next or NAME~previous
	Seq        int64  // the position across campaigns
	Actor      string
	Reason     string
	At         time.Time // by the database's clock
}
