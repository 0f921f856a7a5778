package status

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/marks"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/store/scheduled"
)

func TestProblemsAreWhatIsWrongTheWorstFirst(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) *time.Time {
		then := at.Add(-d)
		return &then
	}
	waiting := func(d time.Duration) []outbox.GroupReport {
		return []outbox.GroupReport{{Group: "g", Pending: 5, At: at, Oldest: &outbox.Entry{CampaignID: "a", Since: *ago(d)}}}
	}
	live := []Worker{{Worker: lease.Worker{ConsumerGroup: "g"}}}
	draining := []Lag{{Behind: outbox.Behind{Group: "g", Events: 5}, Drain: &Drain{PerSecond: 1}}}
	tests := []struct {
		name   string
		status Status
		want   []string // severities and places
	}{
		{"nothing", Status{At: at}, nil},
		{"appends that are due", Status{At: at, Scheduled: &scheduled.Report{Overdue: 1, OverdueFor: time.Second}}, nil},
		{
			"overdue and refused appends",
			Status{At: at, Scheduled: &scheduled.Report{Overdue: 1, OverdueFor: time.Hour, Refused: 1}},
			[]string{"warning scheduled appends", "warning scheduled appends"},
		},
		{"work and who does it", Status{At: at, Queue: waiting(time.Second), Workers: live}, nil},
		{
			"work and nobody who does it",
			Status{At: at, Queue: waiting(time.Second), Workers: []Worker{}},
			[]string{"critical group g"},
		},
		{"work, and workers were not asked for", Status{At: at, Queue: waiting(time.Second)}, nil},
		{"old work", Status{At: at, Queue: waiting(time.Hour), Workers: live}, []string{"warning group g"}},
		{"old work that gets less", Status{At: at, Queue: waiting(time.Hour), Workers: live, Lag: draining}, nil},
		{
			"a worker of a time that has not come yet",
			Status{At: at, Workers: []Worker{
				{Worker: lease.Worker{ConsumerGroup: "g", Host: "h", PID: 7}, Silent: -time.Hour},
				{Silent: -time.Second},
			}},
			[]string{"warning group g"},
		},
		{"a silent worker", Status{At: at, Workers: []Worker{
			{Worker: lease.Worker{ConsumerGroup: "g"}, Silent: time.Minute},
			{Silent: 2 * time.Hour},
		}}, []string{"warning group g"}},
		{
			"silent workers, in one line",
			Status{At: at, Workers: []Worker{{
				Worker: lease.Worker{ConsumerGroup: "g"},
				Silent: time.Minute,
			}, {Worker: lease.Worker{ConsumerGroup: "g"}, Silent: 2 * time.Minute}}},
			[]string{"warning group g"},
		},
		{
			"workers with different projections", Status{At: at, Workers: []Worker{
				{Worker: lease.Worker{ConsumerGroup: "g", Knows: map[string][]int{"a": {1}}, StartedAt: *ago(time.Hour)}},
				{Worker: lease.Worker{ConsumerGroup: "g", Knows: map[string][]int{"b": {1}}, StartedAt: *ago(2 * time.Hour)}},
				{Worker: lease.Worker{ConsumerGroup: "f", Knows: map[string][]int{"a": {1}}, StartedAt: *ago(time.Minute)}},
				{Worker: lease.Worker{ConsumerGroup: "f", Knows: map[string][]int{"b": {1}}, StartedAt: *ago(2 * time.Hour)}},
				{Worker: lease.Worker{ConsumerGroup: "e", Knows: map[string][]int{"a": {1}}}, Silent: 2 * time.Hour},
				{Worker: lease.Worker{ConsumerGroup: "e", Knows: map[string][]int{"b": {1}}}},
			}}, []string{"warning group g", "note group f"},
		},
		{
			"a group that is paused",
			Status{
				At: at, Queue: waiting(time.Hour), Workers: []Worker{},
				Pauses: []pause.Pause{{Target: pause.Target{Group: "g"}, By: "ada", PausedAt: at}},
			},
			[]string{"note consumer group \"g\""},
		},
		{"tables that were replaced, which no worker keeps up", Status{
			At: at, Kept: []rebuild.Registered{{Name: "p~previous", Group: "g", Version: 1}}, Workers: []Worker{
				{Worker: lease.Worker{ConsumerGroup: "g", Knows: map[string][]int{"p": {2}, "q": {1}}}},
				{Worker: lease.Worker{ConsumerGroup: "f", Knows: map[string][]int{"p": {1}}}},
				{Worker: lease.Worker{ConsumerGroup: "g", Knows: map[string][]int{"p": {1}}}, Silent: 2 * time.Hour},
			},
		}, []string{"note projection p~previous"}},
		{"tables that were replaced, which a worker keeps up", Status{
			At: at, Lag: []Lag{{Behind: outbox.Behind{Group: "g", Projection: "p~previous", Events: 9, Age: time.Hour}}},
			Kept:    []rebuild.Registered{{Name: "p~previous", Group: "g", Version: 1}},
			Workers: []Worker{{Worker: lease.Worker{ConsumerGroup: "g", Knows: map[string][]int{"p": {2, 1}}}}},
		}, nil},
		{"failures, the longest first", Status{At: at, Failed: []failed.Sum{
			{Projection: "p", Status: failed.Failed, Campaigns: 1, Since: ago(time.Hour)},
			{Projection: "q", Status: failed.CatchingUp, Campaigns: 9},
			{Projection: "r", Status: failed.Dead, Campaigns: 2, Since: ago(time.Minute)},
			{Projection: "s", Status: failed.Dead, Campaigns: 2, Since: ago(time.Hour)},
		}}, []string{"critical projection s", "critical projection r", "warning projection p"}},
		{"publishers", Status{At: at, Publishers: []publications.Publication{
			{Key: publications.Key{Topic: "t", Publisher: "fine"}, Status: "ACTIVE", Holder: "h"},
			{Key: publications.Key{Topic: "t", Publisher: "paused"}, Status: "PAUSED"},
			{Key: publications.Key{Topic: "t", Publisher: "failed"}, Status: "FAILED"},
			{Key: publications.Key{Topic: "t", Publisher: "left"}, Status: "ACTIVE", Lag: time.Hour},
			{Key: publications.Key{Topic: "t", Publisher: "parks"}, Status: "ACTIVE", Holder: "h", Parked: 1},
		}}, []string{
			"critical publisher left of topic t", "critical publisher failed of topic t",
			"warning publisher parks of topic t", "note publisher paused of topic t",
		}},
		{"publishers that fail, by their first error", Status{At: at, Publishers: []publications.Publication{
			{
				Key: publications.Key{Topic: "t", Publisher: "young"}, Status: "ACTIVE", Errors: 1, FailingSince: ago(time.Minute),
				LastErrorAt: ago(time.Minute),
			},
			{
				Key: publications.Key{Topic: "t", Publisher: "old"}, Status: "ACTIVE", Errors: 153, FailingSince: ago(time.Hour),
				LastErrorAt: ago(time.Second),
			},
		}}, []string{"warning publisher old of topic t", "warning publisher young of topic t"}},
		{"publishers that have sent what was lost", Status{At: at, Publishers: []publications.Publication{
			{
				Key: publications.Key{Topic: "t", Publisher: "of late"}, Status: "ACTIVE", Holder: "h", Ghosts: 3,
				GhostsAt: ago(6 * 24 * time.Hour),
			},
			{
				Key: publications.Key{Topic: "t", Publisher: "long ago"}, Status: "ACTIVE", Holder: "h", Ghosts: 3,
				GhostsAt: ago(8 * 24 * time.Hour),
			},
		}}, []string{"warning publisher of late of topic t"}},
		{"a rebuild that is refused", Status{At: at, Rebuilds: []rebuild.Rebuild{
			{Projection: "p"},
			{Projection: "q", Refusal: "a lock"},
		}}, []string{"warning projection q"}},
		{"an append that stays open", Status{At: at, Journal: &Journal{FloorAge: time.Hour}}, []string{"critical journal"}},
		{
			"marks that nobody prunes",
			Status{At: at, Inbox: &marks.Statistics{At: at, OldestExpiry: ago(2 * time.Hour)}},
			[]string{"warning inbox"},
		},
		{"Postgres", Status{At: at, Postgres: &Postgres{
			OldestTransaction: time.Hour, Connections: 95, MaxConnections: 100, WraparoundLeft: 1000,
			Tables: []Table{{Name: "outbox", DeadTuples: 200_000, LiveTuples: 10}, {Name: "journal", LiveTuples: 1e6}},
		}}, []string{"critical Postgres", "warning Postgres", "warning Postgres", "warning table outbox"}},
		{"a NOTIFY queue that fills", Status{At: at, Postgres: &Postgres{
			MaxConnections: 100, WraparoundLeft: 1 << 31, NotifyQueue: 0.6,
		}}, []string{"warning Postgres"}},
		{"a NOTIFY queue that is nearly full", Status{At: at, Postgres: &Postgres{
			MaxConnections: 100, WraparoundLeft: 1 << 31, NotifyQueue: 0.91,
			NotifyHolder: &Holder{PID: 7, User: "eve", Application: "etl", Remedy: "SELECT pg_terminate_backend(7)"},
		}}, []string{"critical Postgres"}},
		{"a healthy Postgres", Status{At: at, Postgres: &Postgres{MaxConnections: 100, WraparoundLeft: 1 << 31}}, nil},
		{
			"what could not be read",
			Status{At: at, Unread: map[Section]error{SectionLag: errors.New("too slow")}},
			[]string{"warning lag"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range tt.status.Problems() {
				got = append(got, string(p.Severity)+" "+p.Where)
				if p.What == "" || p.Do == "" {
					t.Errorf("%+v does not say what is wrong, or what to do", p)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
