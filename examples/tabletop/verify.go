package tabletop

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// Report is the result of [Verify].
type Report struct {
	Events     int64 // of this domain in the journal
	Since      int64 // those of them after the position given to Verify
	Duplicates int64 // events by which the campaigns' counts exceed the journal's
	Tables     []TableReport
}

// TableReport is the difference between a table and the fold of the journal.
type TableReport struct {
	Table     string
	Rows      int64 // in the table
	Missing   int64 // only in the fold
	Extra     int64 // only in the table
	Different int64
	Example   string // one row that differs; "": none
}

// Mismatches counts the rows that are missing, extra or different.
func (t TableReport) Mismatches() int64 { return t.Missing + t.Extra + t.Different }

// Mismatches counts the mismatches of all tables.
func (r Report) Mismatches() int64 {
	var n int64
	for _, t := range r.Tables {
		n += t.Mismatches()
	}
	return n
}

// Verify folds the whole journal and compares the tables with the result, row by row. It streams
// both. Call it when nothing is being appended and nothing is left to apply. At any other time it
// also reports the events that are still to be applied. It counts events after the position since
// separately.
func Verify(ctx context.Context, db event.Querier, since int64) (Report, error) {
	want, err := fold(ctx, db, since)
	if err != nil {
		return Report{}, err
	}
	report := Report{Events: want.events, Since: want.since}
	var errs []error
	collect := func(table TableReport, err error) {
		report.Tables = append(report.Tables, table)
		errs = append(errs, err)
	}
	collect(compare(ctx, db, "campaigns", queryCampaigns, want.campaigns, (*campaignRow).columns,
		func(want, got campaignRow) {
			report.Duplicates += max(0, got.Events-want.Events)
		}))
	collect(compare(ctx, db, "participants", queryParticipants, want.participants, (*participantRow).columns, nil))
	collect(compare(ctx, db, "characters", queryCharacters, want.characters, (*characterRow).columns, nil))
	collect(compare(ctx, db, "sessions", querySessions, want.sessions, (*sessionRow).columns, nil))
	collect(compare(ctx, db, "active_sessions", queryActiveSessions, want.activeSessions, (*activeSessionRow).columns,
		nil))
	collect(compare(ctx, db, "invites", queryInvites, want.invites, (*inviteRow).columns, nil))
	collect(compare(ctx, db, "players", queryPlayers, want.players, (*playerRow).columns, nil))
	collect(compare(ctx, db, "leaderboard", queryLeaderboard, want.leaderboard, (*leaderRow).columns, nil))
	return report, errors.Join(errs...)
}

// compare streams a table and removes each of its rows from want. Rows left at the end are missing.
// inspect, if not nil, is called with every two rows of the same key.
func compare[R comparable](ctx context.Context, db event.Querier, table, query string, want map[rowKey]R,
	columns func(*R) []any,
	inspect func(want, got R),
) (TableReport, error) {
	report := TableReport{Table: table}
	rows, err := db.Query(ctx, query)
	if err != nil {
		return report, fmt.Errorf("read table %s: %w", table, err)
	}
	var key rowKey
	var got R
	_, err = pgx.ForEachRow(rows, append([]any{&key.campaign, &key.id}, columns(&got)...), func() error {
		report.Rows++
		expected, found := want[key]
		delete(want, key)
		switch {
		case !found:
			report.Extra++
			report.example("%v is in the table but not in the journal: %+v", key, got)
		case expected != got:
			report.Different++
			report.example("%v is %+v, the journal says %+v", key, got, expected)
		}
		if found && inspect != nil {
			inspect(expected, got)
		}
		return nil
	})
	if err != nil {
		return report, fmt.Errorf("read table %s: %w", table, err)
	}
	report.Missing = int64(len(want))
	for key, expected := range want {
		report.example("%v is missing, the journal says %+v", key, expected)
		break
	}
	return report, nil
}

// example keeps the first difference as an example.
func (t *TableReport) example(format string, args ...any) {
	if t.Example == "" {
		t.Example = fmt.Sprintf(format, args...)
	}
}
