package replay

import (
	"encoding/json"
	"errors"

	"github.com/tidemark-go/tidemark/internal/store/failed"
)

// VerifyRequest is projector.VerifyRequest.
type VerifyRequest struct {
	Projection string
	Campaigns  []string
	Sample     int  // so many campaigns, at random
	All        bool // every campaign of the journal, and rows of campaigns that it does not have

	// Ignore names columns that need not be the same, such as one that holds the time of the write:
	// "column", or "table.column". Columns that Postgres numbers by itself are never compared.
	Ignore []string

	Concurrency int // campaigns are verified on so many connections; default [Config].Concurrency

	// These, if set, are called as it goes on, never two at a time: OnCampaign for each campaign in
	// which something differs, OnDifference for what differs, of a batch of up to 64 campaigns at most
	// the first 1000, OnResolution for each event that is left out since an operator has resolved it,
	// and OnProgress after each batch.
	OnCampaign   func(campaignID string)
	OnDifference func(Difference)
	OnResolution func(failed.Resolution)
	OnProgress   func(VerifyReport)
}

// VerifyReport is projector.VerifyReport.
type VerifyReport struct {
	Campaigns int64    // verified
	Total     int64    // to be verified, as far as is known
	Events    int64    // applied on the way
	Skipped   int64    // campaigns passed by, for the projection is being rebuilt in them
	Resolved  int64    // events left out, for operators have resolved them
	Unchecked []string // tables without a column campaign_id of type text: nothing is known of their rows
	Tables    []VerifiedTable

	Differing int64 // campaigns in which something differs
	Failed    int64 // of them, those that cannot be applied from their first event on
	Strays    int64 // rows of campaigns that the journal does not have
}

// VerifiedTable counts the rows of a table.
type VerifiedTable struct {
	Table                     string
	Rows                      int64 // that the journal says there should be, in the campaigns verified
	Missing, Extra, Different int64
}

// Differences is how many differences there are.
func (r VerifyReport) Differences() int64 {
	n := r.Failed + r.Strays
	for _, t := range r.Tables {
		n += t.Missing + t.Extra + t.Different
	}
	return n
}

// DifferenceKind says in which way something differs.
type DifferenceKind string

// The kinds of differences.
const (
	DifferenceMissing   DifferenceKind = "missing"   // the journal says there is such a row, and there is none
	DifferenceExtra     DifferenceKind = "extra"     // there is a row that should not be
	DifferenceDifferent DifferenceKind = "different" // the row is there, with other values
	DifferenceStray     DifferenceKind = "stray"     // the row's campaign is not in the journal
	DifferenceFailed    DifferenceKind = "failed"    // the campaign's events cannot be applied from the first one on
)

// Difference is a row that is not as the journal says.
type Difference struct {
	Kind       DifferenceKind
	CampaignID string
	Table      string          // "" where Kind is "failed"
	Key        json.RawMessage // an array: the values of the primary key; nil: the table has none
	Want, Got  json.RawMessage // the row as an object; nil: there is none
	Columns    []string        // those that differ, in order
	Err        error           // why it failed
}

func (r VerifyRequest) validate() error {
	ways := 0
	for _, way := range []bool{len(r.Campaigns) > 0, r.Sample > 0, r.All} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		return errors.New("what to verify is one of Campaigns, Sample and All")
	}
	return nil
}
