package status

import (
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/marks"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// Section is a part of a [Status] that is read by itself.
type Section string

// The sections, and the fields they fill in.
const (
	SectionQueue      Section = "queue"      // Queue
	SectionLag        Section = "lag"        // Lag
	SectionDeferred   Section = "deferred"   // Deferred
	SectionPauses     Section = "pauses"     // Pauses, MostPauses at most
	SectionWorkers    Section = "workers"    // Workers, Suspects
	SectionRebuilds   Section = "rebuilds"   // Rebuilds
	SectionPublishers Section = "publishers" // Publishers
	SectionInbox      Section = "inbox"      // Inbox
	SectionJournal    Section = "journal"    // Journal
	SectionPostgres   Section = "postgres"   // Postgres
)

// MostPauses is how many pauses are read; those of campaigns are left out first.
const MostPauses = 10_000

// Status is how it stands, at about one moment: each section is of a moment of its own. What was
// not asked for, or could not be read, is nil.
type Status struct {
	At         time.Time // by the database's clock
	Queue      []outbox.GroupReport
	Lag        []Lag // each group, and after it each of its projections
	Deferred   []failed.Sum
	Pauses     []pause.Pause
	Workers    []Worker
	Suspects   map[string]int64 // campaigns under which a process has died, by consumer group
	Rebuilds   []rebuild.Rebuild
	Publishers []publications.Publication
	Inbox      *marks.Statistics
	Journal    *Journal
	Postgres   *Postgres

	Kept []rebuild.Registered `json:"-"` // tables that rebuilds have replaced, with Rebuilds

	// Unread says why sections that were asked for are not there.
	Unread map[Section]error
}

// Lag is how far a group, or a projection, is behind the journal.
type Lag struct {
	outbox.Behind
	Drain *Drain // nil until two readings have been compared
}

// Drain is how fast a lag falls.
type Drain struct {
	PerSecond float64        // events; below 0 the lag grows
	Empty     *time.Duration // until there is no lag, at that speed; nil: it does not fall
}

// Worker is a worker as it says of itself.
type Worker struct {
	lease.Worker
	Silent time.Duration // since it was last seen; below 0: at a time that has not come yet
}

// Live says whether the worker has been seen of late. Workers beat once a second.
func (w Worker) Live() bool { return w.Silent < silentAfter && !w.Ahead() }

// Ahead says whether the worker was seen last at a time that has not come yet: the server's clock
// has gone back, and the worker has not said since that it lives.
func (w Worker) Ahead() bool { return w.Silent < -aheadAfter }

const (
	silentAfter = 5 * time.Second
	aheadAfter  = time.Minute // a clock that has gone back by less is up to date again soon
	missingFor  = time.Hour   // a worker silent for longer is no news
)

// Missing says whether the worker has fallen silent within the hour and has not said that it stops.
func (w Worker) Missing() bool { return !w.Live() && !w.Ahead() && w.Silent < missingFor }

// Journal is how it stands with the journal as a whole.
type Journal struct {
	Position int64         // the last that was handed out
	Floor    int64         // up to which readers of the whole journal can read: the writer floor
	FloorAge time.Duration // of the transaction that holds the floor below Position; 0: none does
	FloorPID int           // its backend; 0: none, not to be seen, or it is prepared

	FloorHolder string // which it is: a process and its application, or the name of a prepared transaction
	FloorRemedy string // the statement that ends it
}

// Compare notes how fast lags fell since an earlier reading, which must be at least a second older;
// else it does nothing.
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
			empty := time.Duration(float64(l.Events) / l.Drain.PerSecond * float64(time.Second))
			l.Drain.Empty = &empty
		}
	}
}
