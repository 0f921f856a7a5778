package status

import (
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/copies"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/marks"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/store/scheduled"
)

// Section is a part of a [Status] that is read by itself.
type Section string

// The sections, and the fields they fill.
const (
	SectionQueue      Section = "queue"      // Queue
	SectionLag        Section = "lag"        // Lag
	SectionFailed     Section = "failed"     // Failed
	SectionPauses     Section = "pauses"     // Pauses, up to MostPauses
	SectionWorkers    Section = "workers"    // Workers, Suspects
	SectionRebuilds   Section = "rebuilds"   // Rebuilds
	SectionPublishers Section = "publishers" // Publishers
	SectionInbox      Section = "inbox"      // Inbox
	SectionScheduled  Section = "scheduled"  // Scheduled
	SectionJournal    Section = "journal"    // Journal
	SectionPostgres   Section = "postgres"   // Postgres
)

// MostPauses is the maximum number of pauses that are read. Beyond it, pauses of campaigns are
// missing first.
const MostPauses = 10_000

// Status is the state of a Tidemark at about one moment. Each section is read at its own moment. A
// section that was not requested or could not be read is nil.
type Status struct {
	At         time.Time // by the database's clock
	Queue      []outbox.GroupReport
	Lag        []Lag // each group, followed by its projections
	Failed     []failed.Sum
	Pauses     []pause.Pause
	Workers    []Worker
	Suspects   map[string]int64 // campaigns under which a process died, by consumer group
	Rebuilds   []rebuild.Rebuild
	Publishers []publications.Publication
	Inbox      *marks.Statistics
	Scheduled  *scheduled.Report
	Journal    *Journal
	Postgres   *Postgres

	Places []ledger.Place `json:"-"` // of projections across campaigns, read with Lag

	Kept []rebuild.Registered `json:"-"` // replaced tables that a rollback would use, read with Rebuilds

	Others []rebuild.Other `json:"-"` // SQL files that were changed under one version, read with Rebuilds

	// Unread has the errors of requested sections that are missing.
	Unread map[Section]error
}

// Lag is how far a group or a projection is behind the journal.
type Lag struct {
	outbox.Behind
	Drain *Drain // nil until Compare
}

// Drain is the speed at which a lag falls.
type Drain struct {
	PerSecond float64        // events; negative: the lag grows
	Empty     *time.Duration // time to no lag at that speed; nil: the lag does not fall
}

// Worker is a worker's own report.
type Worker struct {
	lease.Worker
	Silent time.Duration // time since it was last seen; negative: it was seen in the future
}

// Live reports whether the worker was seen in the last 5 seconds. Workers beat once a second.
func (w Worker) Live() bool { return w.Silent < silentAfter && !w.Ahead() }

// Ahead reports whether the worker was last seen more than a minute in the future: the server's clock
// has gone back and the worker has not reported since.
func (w Worker) Ahead() bool { return w.Silent < -aheadAfter }

const (
	silentAfter = 5 * time.Second
	aheadAfter  = time.Minute // a smaller step back is made up for soon
	missingFor  = time.Hour   // a worker that is silent for longer is not reported
)

// Missing reports whether the worker went silent within the hour without saying that it stops.
func (w Worker) Missing() bool { return !w.Live() && !w.Ahead() && w.Silent < missingFor }

// Journal is the state of the whole journal.
type Journal struct {
	Position int64         // the last one handed out
	Floor    int64         // the writer floor: readers of the whole journal read up to it
	FloorAge time.Duration // age of the transaction that holds the floor below Position; 0: none
	FloorPID int           // its backend; 0: none, not visible, or a prepared transaction

	Faults      []copies.Fault // what the database lacks if it is a copy
	FloorHolder string         // a process and its application, or the name of a prepared transaction
	FloorRemedy string         // the statement that ends the holder's transaction
}

// Compare sets the drain of each lag since an earlier reading. It does nothing unless earlier is at
// least a second older.
func (s *Status) Compare(earlier *Status) {
	if earlier == nil {
		return
	}
	seconds := s.At.Sub(earlier.At).Seconds()
	if seconds < 1 {
		return
	}
	type subject struct{ group, projection string }
	before := make(map[subject]int64, len(earlier.Lag))
	for _, l := range earlier.Lag {
		before[subject{l.Group, l.Projection}] = l.Events
	}
	for i := range s.Lag {
		l := &s.Lag[i]
		events, known := before[subject{l.Group, l.Projection}]
		if !known {
			continue
		}
		l.Drain = &Drain{PerSecond: float64(events-l.Events) / seconds}
		if l.Drain.PerSecond > 0 {
			l.Drain.Empty = new(time.Duration(float64(l.Events) / l.Drain.PerSecond * float64(time.Second)))
		}
	}
}
