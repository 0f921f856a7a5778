package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/copies"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/marks"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/store/scheduled"
)

const defaultTimeout = 2 * time.Second

// Reader reads the status from the database.
type Reader struct {
	Pool    *pgxpool.Pool
	Timeout time.Duration // of each section; default 2 s
}

// Read reads the sections, all if none is named. Each is read in a short read-only transaction under
// the timeout. A section that cannot be read is noted in [Status.Unread] and does not stop the
// others. Read returns an error if the database does not answer, ctx ends, or the schema is missing
// ([ErrNoSchema]).
func (r *Reader) Read(ctx context.Context, sections ...Section) (*Status, error) {
	if len(sections) == 0 {
		sections = Sections()
	}
	s := &Status{}
	if err := r.Within(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, queryNow).Scan(&s.At)
	}); err != nil {
		return nil, fmt.Errorf("read the status: %w", err)
	}
	for _, section := range sections {
		i := slices.IndexFunc(readers(), func(known reader) bool { return known.section == section })
		if i < 0 {
			return nil, fmt.Errorf("read the status: there is no section %q: known are %q", section, Sections())
		}
		err := r.Within(ctx, func(ctx context.Context, tx pgx.Tx) error { return readers()[i].read(ctx, tx, s) })
		if ctx.Err() != nil {
			return nil, fmt.Errorf("read the status: %w", context.Cause(ctx))
		}
		if undefined(err) {
			return nil, ErrNoSchema
		}
		if err != nil {
			if s.Unread == nil {
				s.Unread = map[Section]error{}
			}
			s.Unread[section] = err
		}
	}
	return s, nil
}

// Within runs read in a read-only transaction. The server ends a statement after the timeout; if the
// server does not answer, Within gives up after one and a half times the timeout.
func (r *Reader) Within(ctx context.Context, read func(context.Context, pgx.Tx) error) error {
	timeout := cmp.Or(r.Timeout, defaultTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout+timeout/2)
	defer cancel()
	return pgx.BeginTxFunc(ctx, r.Pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, queryTimeout, fmt.Sprintf("%dms", timeout.Milliseconds())); err != nil {
				return err
			}
			return read(ctx, tx)
		})
}

// Sections returns all sections in the order in which they are read.
func Sections() []Section { return slice.Of(readers(), func(r reader) Section { return r.section }) }

// reader reads a section into s. It sets the section's field even if there is nothing, so that an
// empty section differs from an unread one.
type reader struct {
	section Section
	read    func(ctx context.Context, tx pgx.Tx, s *Status) error
}

func readers() []reader {
	return []reader{
		{SectionQueue, func(ctx context.Context, tx pgx.Tx, s *Status) (err error) {
			s.Queue, err = outbox.Report(ctx, tx)
			return err
		}},
		{SectionLag, readLag},
		{SectionFailed, func(ctx context.Context, tx pgx.Tx, s *Status) (err error) {
			s.Failed, err = failed.Report(ctx, tx)
			s.Failed = slices.DeleteFunc(s.Failed, func(d failed.Sum) bool { return failed.Replaced(d.Projection) })
			return err
		}},
		{SectionPauses, func(ctx context.Context, tx pgx.Tx, s *Status) (err error) {
			s.Pauses, err = pause.List(ctx, tx, "", nil, MostPauses)
			slices.SortFunc(s.Pauses, func(a, b pause.Pause) int { // each group's own first
				return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.CampaignID, b.CampaignID),
					cmp.Compare(a.Projection, b.Projection))
			})
			return err
		}},
		{SectionWorkers, readWorkers},
		{SectionRebuilds, readRebuilds},
		{SectionPublishers, func(ctx context.Context, tx pgx.Tx, s *Status) (err error) {
			s.Publishers, err = publications.List(ctx, tx, publications.Key{})
			return err
		}},
		{SectionInbox, func(ctx context.Context, tx pgx.Tx, s *Status) error {
			stats, err := marks.Stats(ctx, tx)
			if err == nil {
				s.Inbox = &stats
			}
			return err
		}},
		{SectionScheduled, func(ctx context.Context, tx pgx.Tx, s *Status) error {
			report, err := scheduled.Counts(ctx, tx)
			if err == nil {
				s.Scheduled = &report
			}
			return err
		}},
		{SectionJournal, readJournal},
		{SectionPostgres, readPostgres},
	}
}

func readLag(ctx context.Context, tx pgx.Tx, s *Status) error {
	lags, err := outbox.Lag(ctx, tx)
	if err != nil {
		return err
	}
	s.Lag = slice.Of(lags, func(l outbox.Behind) Lag { return Lag{Behind: l} })
	s.Places, err = ledger.Places(ctx, tx)
	return err
}

func readRebuilds(ctx context.Context, tx pgx.Tx, s *Status) (err error) {
	if s.Rebuilds, err = rebuild.Rebuilds(ctx, tx, ""); err != nil {
		return err
	}
	if s.Others, err = rebuild.Others(ctx, tx); err != nil {
		return err
	}
	registered, err := rebuild.Projections(ctx, tx)
	s.Kept = slices.DeleteFunc(registered, func(r rebuild.Registered) bool {
		return !strings.HasSuffix(r.Name, previous)
	})
	return err
}

func readWorkers(ctx context.Context, tx pgx.Tx, s *Status) error {
	workers, err := lease.Workers(ctx, tx)
	if err != nil {
		return err
	}
	var now time.Time
	if err := tx.QueryRow(ctx, queryNow).Scan(&now); err != nil {
		return err
	}
	if s.Suspects, err = lease.Suspects(ctx, tx); err != nil {
		return err
	}
	s.Workers = slice.Of(workers, func(w lease.Worker) Worker { return Worker{Worker: w, Silent: now.Sub(w.SeenAt)} })
	return nil
}

func readJournal(ctx context.Context, tx pgx.Tx, s *Status) error {
	floor, last, _, err := feed.Progress(ctx, tx)
	if err != nil {
		return err
	}
	j := &Journal{Position: last, Floor: floor}
	oldest, err := feed.OldestAppend(ctx, tx)
	if err != nil {
		return err
	}
	if j.Faults, err = copies.Faults(ctx, tx); err != nil {
		return err
	}
	j.FloorAge, j.FloorPID, j.FloorHolder, j.FloorRemedy = oldest.Age, oldest.PID, oldest.Holder, oldest.Remedy
	s.Journal = j
	return nil
}

// ErrNoSchema is returned by [Reader.Read] when the schema does not exist or does not match.
var ErrNoSchema = errors.New("the schema tidemark is missing or of another version: migrate the database")

// undefined reports whether a statement names a table, schema or function that does not exist.
func undefined(err error) bool {
	const table, schema, function = "42P01", "3F000", "42883"
	return slices.Contains([]string{table, schema, function}, redact.SQLState(err))
}

// NoSchema returns [ErrNoSchema] if err comes from a database that was never migrated, else err.
func NoSchema(ctx context.Context, pool *pgxpool.Pool, err error) error {
	var there bool
	if !undefined(err) || pool.QueryRow(ctx, queryThere).Scan(&there) != nil || there {
		return err
	}
	return ErrNoSchema
}

// mixed reports groups whose live workers have different projections. It is a note while it may be a
// rolling upgrade.
func (s *Status) mixed(found *problems) {
	live := slices.DeleteFunc(slices.Clone(s.Workers), func(w Worker) bool { return !w.Live() })
	for _, m := range lease.Mixtures(slice.Of(live, func(w Worker) lease.Worker { return w.Worker })) {
		severity := Warning
		if m.Upgrade(s.At) {
			severity = Note
		}
		found.add(severity, "group "+m.Group, &m.Since, m.Remedy(), "%s", m)
	}
}

// changed warns of SQL files that were changed under one version.
func (s *Status) changed(found *problems) {
	for _, o := range s.Others {
		who := strings.Join(o.Workers[:min(len(o.Workers), 3)], ", ")
		if more := len(o.Workers) - 3; more > 0 {
			who += fmt.Sprintf(" and %d more", more)
		}
		found.add(Warning, "projection "+o.Name, o.Since,
			"raise the version in the changed file, which rebuilds the tables, or take the change back; ten minutes after "+
				"it was first seen no worker starts with it",
			"its file in %s has other statements than the one that made its tables, and both are version %d: rows of two "+
				"meanings stand side by side", who, o.Version)
	}
}
