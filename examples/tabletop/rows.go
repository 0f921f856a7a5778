package tabletop

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// rowKey is the primary key of a table: the campaign and an id that is unique in it. Where a
// campaign has one row, the id is the campaign again. Across campaigns the campaign is empty.
type rowKey struct{ campaign, id string }

// The rows of the tables, comparable with ==. The columns are in the order of the queries.
type (
	campaignRow struct {
		Name, System, Theme, Status, ForkedFrom    string
		Participants, Characters, Sessions, Events int64
	}
	participantRow struct {
		Name, Role       string
		Seat             int // 0: none
		JoinedAt, LeftAt instant
	}
	characterRow struct {
		ParticipantID, Name, Class     string
		Level, HitPoints, MaxHitPoints int
	}
	sessionRow struct {
		Number, Scenes     int
		Title, Recap       string
		StartedAt, EndedAt instant
	}
	activeSessionRow struct {
		SessionID, SceneID, SceneTitle string
		StartedAt                      instant
	}
	inviteRow struct {
		Recipient, Status, ParticipantID string
		CreatedAt, SettledAt             instant
	}
	playerRow struct {
		Invites, Joined int64
		Tables          string // campaign and role of each
	}
	leaderRow struct {
		Joined, Led int64
		LatestAt    instant
	}
)

func (r *campaignRow) columns() []any {
	return []any{
		&r.Name, &r.System, &r.Theme, &r.Status, &r.ForkedFrom, &r.Participants, &r.Characters, &r.Sessions,
		&r.Events,
	}
}

func (r *participantRow) columns() []any {
	return []any{&r.Name, &r.Role, &r.Seat, &r.JoinedAt, &r.LeftAt}
}

func (r *characterRow) columns() []any {
	return []any{&r.ParticipantID, &r.Name, &r.Class, &r.Level, &r.HitPoints, &r.MaxHitPoints}
}

func (r *sessionRow) columns() []any {
	return []any{&r.Number, &r.Scenes, &r.Title, &r.Recap, &r.StartedAt, &r.EndedAt}
}

func (r *activeSessionRow) columns() []any {
	return []any{&r.SessionID, &r.SceneID, &r.SceneTitle, &r.StartedAt}
}

func (r *inviteRow) columns() []any {
	return []any{&r.Recipient, &r.Status, &r.ParticipantID, &r.CreatedAt, &r.SettledAt}
}

func (r *playerRow) columns() []any { return []any{&r.Invites, &r.Joined, &r.Tables} }

func (r *leaderRow) columns() []any { return []any{&r.Joined, &r.Led, &r.LatestAt} }

// instant is a time in microseconds since 1970, the precision of Postgres; 0: none.
type instant int64

func instantOf(t time.Time) instant { return instant(t.UnixMicro()) }

// ScanTimestamptz implements [pgtype.TimestamptzScanner].
func (i *instant) ScanTimestamptz(v pgtype.Timestamptz) error {
	*i = 0
	if v.Valid {
		*i = instantOf(v.Time)
	}
	return nil
}
