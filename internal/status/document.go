package status

import (
	"time"

	"github.com/tidemark-go/tidemark/internal/redact"
)

// DocumentVersion changes when a field of [Document] goes or changes its meaning.
const DocumentVersion = 1

// Document is a status as JSON, for programs. Times are in UTC, durations in seconds. A section that was not read is null.
type Document struct {
	Version    int                 `json:"version"`
	At         time.Time           `json:"at"`
	Problems   []ProblemDocument   `json:"problems"`
	Groups     []GroupDocument     `json:"groups"`
	Lag        []LagDocument       `json:"lag"`
	Deferred   []DeferredDocument  `json:"deferred"`
	Workers    []WorkerDocument    `json:"workers"`
	Rebuilds   []RebuildDocument   `json:"rebuilds"`
	Publishers []PublisherDocument `json:"publishers"`
	Inbox      *InboxDocument      `json:"inbox"`
	Journal    *JournalDocument    `json:"journal"`
	Postgres   *PostgresDocument   `json:"postgres"`
	Unread     map[string]string   `json:"unread"` // sections that could not be read, and why
}

// ProblemDocument is a [Problem].
type ProblemDocument struct {
	Severity string     `json:"severity"`
	What     string     `json:"what"`
	Where    string     `json:"where"`
	Since    *time.Time `json:"since"` // null: not known
	Do       string     `json:"do"`
}

// GroupDocument is an entry of [Status.Queue].
type GroupDocument struct {
	Group       string     `json:"group"`
	Pending     int64      `json:"pending"`
	Processing  int64      `json:"processing"`
	Paused      int64      `json:"paused"`
	Failed      int64      `json:"failed"`
	Dead        int64      `json:"dead"`
	Rebuilding  int64      `json:"rebuilding"`
	Estimated   bool       `json:"estimated"`
	OldestSince *time.Time `json:"oldest_since"` // null: a worker could take nothing
}

// LagDocument is a [Lag].
type LagDocument struct {
	Group        string   `json:"group"`
	Projection   *string  `json:"projection"` // null: the group as a whole
	Events       int64    `json:"events"`
	Campaigns    int64    `json:"campaigns"`
	Seconds      float64  `json:"seconds"`
	Estimated    bool     `json:"estimated"`
	PerSecond    *float64 `json:"drain_per_second"` // null: not known
	EmptySeconds *float64 `json:"empty_in_seconds"` // null: not known, or it does not fall
}

// DeferredDocument is an entry of [Status.Deferred].
type DeferredDocument struct {
	Group      string     `json:"group"`
	Projection string     `json:"projection"`
	Status     string     `json:"status"`
	Class      string     `json:"class"` // empty: unknown, or rebuilding
	Pairs      int64      `json:"pairs"`
	Estimated  bool       `json:"estimated"`
	Since      *time.Time `json:"since"` // null: rebuilding
}

// WorkerDocument is a [Worker].
type WorkerDocument struct {
	Owner         string    `json:"owner"`
	Group         string    `json:"group"`
	Host          string    `json:"host"`
	PID           int       `json:"pid"`
	StartedAt     time.Time `json:"started_at"`
	SeenAt        time.Time `json:"seen_at"`
	Live          bool      `json:"live"`
	CampaignsHeld int       `json:"campaigns_held"`
	EventsApplied int64     `json:"events_applied"`
}

// RebuildDocument is an entry of [Status.Rebuilds].
type RebuildDocument struct {
	Projection string    `json:"projection"`
	Group      string    `json:"group"`
	State      string    `json:"state"`
	Progress   float64   `json:"progress"` // from 0 to 1
	Campaigns  int64     `json:"campaigns"`
	Left       int64     `json:"left"`
	Failed     int64     `json:"failed"`
	Dead       int64     `json:"dead"`
	Estimated  bool      `json:"estimated"`
	Paused     bool      `json:"paused"`
	Refusal    string    `json:"refusal"`
	StartedAt  time.Time `json:"started_at"`
}

// PublisherDocument is an entry of [Status.Publishers].
type PublisherDocument struct {
	Topic     string  `json:"topic"`
	Publisher string  `json:"publisher"`
	Status    string  `json:"status"`
	Position  int64   `json:"position"`
	Behind    int64   `json:"behind"`
	Estimated bool    `json:"estimated"`
	Seconds   float64 `json:"seconds"`
	Errors    int     `json:"errors"`
	LastError string  `json:"last_error"`
	Parked    int64   `json:"parked"`
	Retrying  int64   `json:"retrying"`
	Holder    string  `json:"holder"`
}

// InboxDocument is [Status.Inbox].
type InboxDocument struct {
	Rows         int64      `json:"rows"` // an estimate
	OldestExpiry *time.Time `json:"oldest_expiry"`
}

// JournalDocument is a [Journal].
type JournalDocument struct {
	Position        int64   `json:"position"`
	Floor           int64   `json:"floor"`
	FloorAgeSeconds float64 `json:"floor_age_seconds"`
}

// PostgresDocument is a [Postgres].
type PostgresDocument struct {
	OldestTransactionSeconds float64         `json:"oldest_transaction_seconds"`
	Connections              int             `json:"connections"`
	MaxConnections           int             `json:"max_connections"`
	WraparoundLeft           int64           `json:"wraparound_transactions_left"`
	Tables                   []TableDocument `json:"tables"`
}

// TableDocument is a [Table].
type TableDocument struct {
	Name         string     `json:"name"`
	LiveTuples   int64      `json:"live_tuples"`
	DeadTuples   int64      `json:"dead_tuples"`
	Bytes        int64      `json:"bytes"`
	VacuumedAt   *time.Time `json:"vacuumed_at"`
	AutovacuumAt *time.Time `json:"autovacuum_at"`
}

// Document is the status for programs.
func (s *Status) Document() Document {
	d := Document{Version: DocumentVersion, At: s.At.UTC(), Problems: []ProblemDocument{}, Unread: map[string]string{}}
	for _, p := range s.Problems() {
		d.Problems = append(d.Problems, ProblemDocument{Severity: string(p.Severity), What: p.What, Where: p.Where, Since: utc(p.Since), Do: p.Do})
	}
	for section, err := range s.Unread {
		d.Unread[string(section)] = redact.Error(err)
	}
	for _, g := range s.Queue {
		group := GroupDocument{
			Group: g.Group, Pending: g.Pending, Processing: g.Processing, Paused: g.Paused, Failed: g.Failed, Dead: g.Dead, Rebuilding: g.Rebuilding, Estimated: g.Estimated,
		}
		if g.Oldest != nil {
			group.OldestSince = utc(&g.Oldest.Since)
		}
		d.Groups = append(d.Groups, group)
	}
	d.Groups = read(s.Queue != nil, d.Groups)
	for _, l := range s.Lag {
		d.Lag = append(d.Lag, l.document())
	}
	d.Lag = read(s.Lag != nil, d.Lag)
	for _, p := range s.Deferred {
		d.Deferred = append(d.Deferred, DeferredDocument{
			Group: p.Group, Projection: p.Projection, Status: string(p.Status), Class: p.Class, Pairs: p.Pairs, Estimated: p.Estimated, Since: utc(p.Since),
		})
	}
	d.Deferred = read(s.Deferred != nil, d.Deferred)
	s.documentWork(&d)
	s.documentServer(&d)
	return d
}

// documentWork adds those who work and what they work on.
func (s *Status) documentWork(d *Document) {
	for _, w := range s.Workers {
		d.Workers = append(d.Workers, WorkerDocument{
			Owner: w.Owner, Group: w.ConsumerGroup, Host: w.Host, PID: w.PID, StartedAt: w.StartedAt.UTC(), SeenAt: w.SeenAt.UTC(), Live: w.Live(),
			CampaignsHeld: w.CampaignsHeld, EventsApplied: w.EventsApplied,
		})
	}
	d.Workers = read(s.Workers != nil, d.Workers)
	for _, r := range s.Rebuilds {
		d.Rebuilds = append(d.Rebuilds, RebuildDocument{
			Projection: r.Projection, Group: r.Group, State: r.State, Progress: r.Progress(), Campaigns: r.Campaigns, Left: r.Left, Failed: r.Failed, Dead: r.Dead,
			Estimated: r.Estimated, Paused: r.Paused, Refusal: r.Refusal, StartedAt: r.StartedAt.UTC(),
		})
	}
	d.Rebuilds = read(s.Rebuilds != nil, d.Rebuilds)
	for _, p := range s.Publishers {
		d.Publishers = append(d.Publishers, PublisherDocument{
			Topic: p.Topic, Publisher: p.Publisher, Status: p.Status, Position: p.Position, Behind: p.Behind, Estimated: p.Estimated(), Seconds: p.Lag.Seconds(),
			Errors: p.Errors, LastError: p.LastError, Parked: p.Parked, Retrying: p.Retrying, Holder: p.Holder,
		})
	}
	d.Publishers = read(s.Publishers != nil, d.Publishers)
}

// documentServer adds what there is one of.
func (s *Status) documentServer(d *Document) {
	if i := s.Inbox; i != nil {
		d.Inbox = &InboxDocument{Rows: i.Rows, OldestExpiry: utc(i.OldestExpiry)}
	}
	if j := s.Journal; j != nil {
		d.Journal = &JournalDocument{Position: j.Position, Floor: j.Floor, FloorAgeSeconds: j.FloorAge.Seconds()}
	}
	if p := s.Postgres; p != nil {
		d.Postgres = &PostgresDocument{
			OldestTransactionSeconds: p.OldestTransaction.Seconds(), Connections: p.Connections, MaxConnections: p.MaxConnections, WraparoundLeft: p.WraparoundLeft, Tables: []TableDocument{},
		}
		for _, t := range p.Tables {
			d.Postgres.Tables = append(d.Postgres.Tables, TableDocument{
				Name: t.Name, LiveTuples: t.LiveTuples, DeadTuples: t.DeadTuples, Bytes: t.Bytes, VacuumedAt: utc(t.VacuumedAt), AutovacuumAt: utc(t.AutovacuumAt),
			})
		}
	}
}

func (l Lag) document() LagDocument {
	d := LagDocument{Group: l.Group, Events: l.Events, Campaigns: l.Campaigns, Seconds: l.Age.Seconds(), Estimated: l.Estimated}
	if l.Projection != "" {
		d.Projection = &l.Projection
	}
	if l.Drain != nil {
		d.PerSecond = &l.Drain.PerSecond
		if l.Drain.Empty != nil {
			seconds := l.Drain.Empty.Seconds()
			d.EmptySeconds = &seconds
		}
	}
	return d
}

// read tells a section that is empty from one that was not read.
func read[T any](was bool, all []T) []T {
	if was && all == nil {
		return []T{}
	}
	return all
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	at := t.UTC()
	return &at
}
