package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/pages"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// compactEvents is the number of events after which rows are rewritten, at least.
const compactEvents = 4000

// scratch holds a projection's tables, empty at first, in a schema of their own in a transaction
// that is rolled back. It sees one snapshot, so live tables, checkpoints and journal match.
type scratch struct {
	*apply.Transaction
	k       *registry.Projection
	schema  string
	tables  []scratchTable
	fold    *fold              // of a projection across campaigns
	head    int64              // last seq of the campaign, or last position
	since   int                // events applied since the rows were rewritten
	kept    int                // rows that were rewritten
	applied int                // events applied
	tracing bool               // name each event to the database before its statements
	skips   bool               // failed events go to the projection's policy; for units of one campaign
	skipped map[string][]int64 // events that the policy skipped, by campaign or key
}

// scratchTable is a table created by the projection.
type scratchTable struct {
	Name      string
	Key       []string // columns of the primary key; empty: none
	Columns   []string // all, in table order
	Generated []string // columns that the database computes
	Numbered  []string // columns that the database numbers
	Campaign  bool     // has a text column campaign_id
	Owner     string   `db:"-"` // column that names the campaign or key of a row; "": none
}

// written returns the columns that can be written, as a list for SQL.
func (t scratchTable) written() string {
	names := slices.DeleteFunc(slices.Clone(t.Columns), func(c string) bool { return slices.Contains(t.Generated, c) })
	return strings.Join(slice.Of(names, func(c string) string { return pgx.Identifier{c}.Sanitize() }), ", ")
}

// Replayer applies events again, beside the live tables, to verify them or to show earlier states.
type Replayer struct {
	*registry.Base
	Applier *apply.Applier
}

// openScratch begins the transaction and creates the tables. The caller must close it.
func (y *Replayer) openScratch(ctx context.Context, k *registry.Projection) (*scratch, error) {
	conn, err := y.Cfg.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire a connection: %w", err)
	}
	s := &scratch{k: k, Transaction: y.Applier.On(conn, nil, nil)}
	// Bare names of the code are looked up in the schema of the live tables too. A process that applies events
	// runs its code in any case.
	if !y.Cfg.OwnTablesOnly && !y.Entered.Load() {
		err = registry.Resolvable(ctx, s.Conn, y.Cfg.Schema)
	}
	if err == nil {
		err = s.begin(ctx)
	}
	if err != nil {
		s.close(ctx)
		return nil, err
	}
	return s, nil
}

func (s *scratch) begin(ctx context.Context) error {
	// Statements prepared for the live tables know their columns' types, which may be the projection's own.
	pipeline.Forget(s.Conn)
	if err := s.Conn.DeallocateAll(ctx); err != nil {
		return err
	}
	s.Queue(queryBeginScratch)
	s.QueueSettings()
	s.Queue(registry.QueryExclusivePatience) // foreign keys lock the tables that they refer to
	s.Queue(registry.QueryMakeScratch)
	path := s.Applier.SearchPath
	if s.Applier.Cfg.OwnTablesOnly {
		path = "pg_temp"
	}
	s.QueuePath(registry.QuerySearchScratch, path).QueryRow(func(row pgx.Row) error { return row.Scan(nil, &s.schema) })
	if err := s.Flush(ctx); err != nil {
		return fmt.Errorf("create a schema for the rows%s: %w", needed(err), err)
	}
	if strings.TrimSpace(s.k.Described.Tables) != "" {
		if _, err := s.Conn.Exec(ctx, s.k.Described.Tables, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("create the tables of projection %s: %w", s.k.Described.Name, err)
		}
	}
	return s.readTables(ctx)
}

// needed names what lacks for a schema: the rows are written beside the live tables, and rolled back.
func needed(err error) string {
	const readOnly, denied = "25006", "42501"
	switch feed.SQLState(err) {
	case readOnly:
		return " (the server or the session is read-only: connect to the primary)"
	case denied:
		return " (needs the CREATE privilege on the database)"
	}
	return ""
}

func (s *scratch) readTables(ctx context.Context) (err error) {
	s.tables, err = rows.All(ctx, s.Conn, pgx.RowToStructByPos[scratchTable], "", queryScratchTables, s.schema)
	for i := range s.tables {
		t, column := &s.tables[i], keyColumn(s.k)
		switch {
		case !s.k.Described.Across() && t.Campaign:
			t.Owner = "campaign_id"
		case s.k.Described.Across() && slices.Contains(t.Columns, column):
			t.Owner = column
		}
	}
	return err
}

// close rolls back, and returns the connection to the pool in its former state.
func (s *scratch) close(ctx context.Context) {
	if s.Pool != nil && !s.Abandoned && !s.Conn.IsClosed() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		pipeline.Forget(s.Conn)
		_, err := s.Conn.Exec(ctx, "ROLLBACK")
		if err == nil && s.Conn.DeallocateAll(ctx) != nil { // of statements prepared for tables that are gone
			_ = s.Conn.Close(ctx)
		}
	}
	s.Abort(ctx)
}

// table returns the quoted name of a scratch table.
func (s *scratch) table(name string) string { return pgx.Identifier{s.schema, name}.Sanitize() }

// advance applies the units' events, each from its place to its end, in groups as live work does.
// It returns an [*ApplyError] if the projection fails; the scratch is then unusable.
func (s *scratch) advance(ctx context.Context, units []*apply.Unit) error {
	for len(units) > 0 {
		if err := s.readUnits(ctx, units); err != nil {
			return err
		}
		events, err := s.selected()
		if err != nil {
			return err
		}
		if s.skips {
			err = s.applySkipping(ctx, units[0], kind.Events{All: events})
		} else {
			err = s.applyGroup(ctx, kind.Events{All: events})
		}
		if err != nil {
			return s.told(s.Blame(err))
		}
		rest := units[len(s.Units):]
		if last := s.Units[len(s.Units)-1]; last.More {
			rest = units[len(s.Units)-1:]
		}
		for _, u := range s.Units {
			s.since += u.Count()
			s.applied += u.Count()
			u.Place = u.Last()
		}
		s.Events = s.Events[:0]
		if err := s.compact(ctx); err != nil {
			return err
		}
		units = rest
	}
	return nil
}

// told redacts an error for readers who may not see values of events.
func (s *scratch) told(err error) error {
	if failed, ok := errors.AsType[*projection.ApplyError](err); ok {
		for _, u := range s.Units {
			for i := range u.Events {
				if e := &u.Events[i]; e.CampaignID == failed.CampaignID && e.Seq == failed.Seq {
					failure.RedactApply(failed, redact.Error(failed.Err, e))
				}
			}
		}
	}
	return err
}

// selected returns the units' events that the projection applies.
func (s *scratch) selected() ([]event.Event, error) {
	var events []event.Event
	for _, u := range s.Units {
		for i := range u.Events {
			e := &u.Events[i]
			if !s.Wants(s.k, e) {
				continue
			}
			if err := u.Unreadable[e.Seq]; err != nil && !s.skips {
				return nil, s.told(s.k.Origin(*e).Wrap(err))
			}
			events = append(events, *e)
		}
	}
	return events, nil
}

// readUnits reads the next group of events of the units.
func (s *scratch) readUnits(ctx context.Context, units []*apply.Unit) error {
	s.Units, s.Events = units, s.Events[:0]
	read := s.GroupRead(s.Applier.Cfg.GroupEvents)
	read.Expand = feed.Expands(ctx, s.Applier.Cfg.Archive)
	found := s.Reading()
	if err := s.patiently(ctx); err != nil {
		return err
	}
	feed.ReadGroup(s.Batch, read, found.Visit)
	if err := s.Flush(ctx); err != nil {
		return s.Blame(s.Applier.SuspectUnreadable(err))
	}
	if err := found.Open(ctx); err != nil {
		return err
	}
	found.End(read)
	return nil
}

// patiently gives the statements that follow the time of an event that takes long to read, up to the deadline of ctx.
// The limits of the projection and the session are too short for it.
func (s *scratch) patiently(ctx context.Context) error {
	limit := pages.LongestRead
	if deadline, ok := ctx.Deadline(); ok {
		limit = max(min(limit, time.Until(deadline)), time.Millisecond)
	}
	s.InForce = 0
	return s.Blame(s.Exec(ctx, apply.QueryStatementTimeout, strconv.FormatInt(limit.Milliseconds(), 10)))
}

func (s *scratch) applyGroup(ctx context.Context, events kind.Events) error {
	switch {
	case len(events.All) == 0:
		return nil
	case s.tracing:
		return s.applyTraced(ctx, events)
	}
	s.LimitStatements(s.k.Timeout(events.All))
	return s.Apply(ctx, s.k, events)
}

// applySkipping applies events of one campaign and leaves out failed ones if the projection's policy skips them.
func (s *scratch) applySkipping(ctx context.Context, u *apply.Unit, events kind.Events) error {
	for len(events.All) > 0 {
		n, cause, err := s.ApplyUpTo(ctx, s.k, u, events)
		if err != nil || cause == nil {
			return err
		}
		e, of := &events.All[n], events.All[n].CampaignID
		if events.Keys != nil {
			of = events.Keys[n]
			s.fold.culprit = of
		}
		if !s.k.Skips(e.Type, cause) {
			return s.k.Origin(*e).Wrap(cause)
		}
		if s.skipped == nil {
			s.skipped = map[string][]int64{}
		}
		s.skipped[of] = append(s.skipped[of], s.place(e))
		events = events.Part(n+1, len(events.All))
	}
	return nil
}

// leaveOutResolved reads the projection's resolved events of campaigns, and leaves them out.
func (s *scratch) leaveOutResolved(ctx context.Context, campaignIDs []string) ([]lookback.Resolution, error) {
	resolutions, err := failed.ResolutionsOf(ctx, s.Conn, s.k.Described.Name, campaignIDs)
	for _, r := range resolutions {
		s.LeaveOut(r.Projection, r.CampaignID, r.Seq)
	}
	return resolutions, err
}

// leaveOutSkipped leaves out events that the projection's policy skipped, by campaign or key.
func (s *scratch) leaveOutSkipped(skipped map[string][]int64) {
	for of, places := range skipped {
		for _, at := range places {
			if s.fold != nil {
				s.fold.leaveOut(of, at)
			} else {
				s.LeaveOut(s.k.Described.Name, of, at)
			}
		}
	}
}

// compact rewrites the rows after many changes: an open transaction's dead row versions slow down lookups.
func (s *scratch) compact(ctx context.Context) error {
	if s.since < max(compactEvents, 2*s.kept) || len(s.tables) == 0 {
		return nil
	}
	s.since = 0
	names := make([]string, len(s.tables))
	var b strings.Builder
	b.WriteString("SET CONSTRAINTS ALL IMMEDIATE;\n")
	for i, t := range s.tables {
		names[i] = s.table(t.Name)
		fmt.Fprintf(&b, "CREATE TABLE %s AS SELECT %s FROM %s;\n", s.aside(i), t.written(), names[i])
	}
	fmt.Fprintf(&b, "TRUNCATE %s;\n", strings.Join(names, ", "))
	for i, t := range s.tables {
		fmt.Fprintf(&b, "ALTER TABLE %s DISABLE TRIGGER USER;\n", names[i])
		fmt.Fprintf(&b, formatRefill, names[i], t.written(), s.aside(i))
		fmt.Fprintf(&b, "ALTER TABLE %s ENABLE TRIGGER USER;\n", names[i])
		fmt.Fprintf(&b, "DROP TABLE %s;\n", s.aside(i))
	}
	b.WriteString("SET CONSTRAINTS ALL DEFERRED")
	results, err := s.Conn.PgConn().Exec(ctx, b.String()).ReadAll()
	s.kept = 0
	for _, r := range results {
		if r.CommandTag.Insert() {
			s.kept += int(r.CommandTag.RowsAffected())
		}
	}
	return err
}

// aside returns the name of a table for rows that are set aside.
func (s *scratch) aside(i int) string { return s.table(fmt.Sprintf("tidemark_aside_%d", i)) }

// ErrTouched is returned by [Projector.Verify] and the other replays if a projection writes to
// tables that it has not created, or names its own with a schema. The writes are rolled back.
var ErrTouched = errors.New("projection does not keep to its own tables")

// untouched returns an error if tables other than the scratch tables were written.
func (s *scratch) untouched(ctx context.Context) error {
	tables, err := rows.All(ctx, s.Conn, pgx.RowTo[string], "", queryTouched, s.schema)
	if err == nil && len(tables) > 0 {
		err = fmt.Errorf("%w: %s has written to %s, which was rolled back: have it name its tables without a schema, and "+
			"write to no others", ErrTouched, s.k.Described.Name, tables[0])
	}
	return err
}
