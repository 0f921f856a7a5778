package outbox

import "time"

// Status says how it stands with an entry.
type Status string

// The statuses. The first three are work items, which belong to a consumer group; the others are
// (campaign, projection) pairs that are behind their group.
const (
	Pending    Status = "pending"    // no worker holds the campaign
	Processing Status = "processing" // a worker holds the campaign's lease
	// the campaign or the whole group is paused; pairs of what is paused keep their statuses
	Paused     Status = "paused"
	Failed     Status = "failed"     // the projection could not apply the event; a retry is due at NextAttemptAt
	Dead       Status = "dead"       // as Failed, but it waits for an operator
	Rebuilding Status = "rebuilding" // the projection is catching up with the campaign
)

// Statuses answers all statuses, in the order in which work goes through them.
func Statuses() []Status { return []Status{Pending, Processing, Paused, Failed, Dead, Rebuilding} }

// Entry is something that remains to be done: a work item, or a (campaign, projection) pair that is behind.
type Entry struct {
	Group      string // consumer group
	CampaignID string //
	Seq        int64  // of the work item's first event that is not applied; of the pair's next event
	// how many events the work item, or in a report the campaign, still waits with, from Seq on; 0 of a pair
	Events        int64
	EventType     string    // of that event
	Status        Status    //
	Projection    string    // of the pair; empty for a work item
	Since         time.Time // when the event was appended
	Attempts      int       // how often the pair has failed at the event
	NextAttemptAt time.Time // when the pair is tried again; zero unless Failed or Rebuilding
	Error         string    // what the pair failed with last
}
