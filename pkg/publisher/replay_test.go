package publisher_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func seqs(received []memory.Received) (all []int64) {
	for _, r := range received {
		all = append(all, r.Seq)
	}
	return all
}

func replayTo(sink publisher.Sink) publisher.ReplayRequest {
	return publisher.ReplayRequest{
		Topic: publisher.Topic{Name: "all"}, To: publisher.Publisher{
			Name: "out", Sink: sink, BatchSize: 4,
			BackoffMax: time.Millisecond,
		}, CampaignID: "a", From: 3, Until: 9, By: "anna", Reason: "she said so",
	}
}

func TestAReplayGoesOnOverFailuresInOrderAndLosesNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	appendTo(t, pool, 12, "a", "b")
	tries := 0
	sink := &memory.Sink{
		Refuse: func(e publisher.Event) (error, bool) {
			if tries++; e.Seq == 5 && tries < 5 {
				return errRefused, false
			}
			return nil, false
		},
	}
	done, err := publisher.Replay(t.Context(), pool, replayTo(sink))
	if err != nil || done.Sent != 7 || done.Through != 9 {
		t.Errorf("got %+v, %v", done, err)
	}
	want := int64(3)
	for i, r := range sink.Received() {
		if r.CampaignID != "a" || r.Seq != want {
			t.Errorf("event %d is %d of campaign %s, want %d of a: all are %v", i, r.Seq, r.CampaignID, want,
				seqs(sink.Received()))
		}
		want++
	}
	if want != 10 {
		t.Errorf("%v have arrived, want 3 to 9", seqs(sink.Received()))
	}
}

func TestAReplayEndsAtAnEventThatIsRefusedAndSaysWhere(t *testing.T) {
	t.Parallel()
	for name, permanent := range map[string]bool{"for good": true, "again and again": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			appendTo(t, pool, 12, "a")
			sink := &memory.Sink{Refuse: func(e publisher.Event) (error, bool) {
				if e.Seq == 8 {
					return errRefused, permanent
				}
				return nil, false
			}}
			done, err := publisher.Replay(t.Context(), pool, replayTo(sink))
			if !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "event 8 of campaign a") || done.Sent != 5 ||
				done.Through != 7 {
				t.Errorf("got %+v, %v", done, err)
			}
			if got := seqs(sink.Received()); len(got) != 5 || got[4] != 7 {
				t.Errorf("%v have arrived, want 3 to 7", got)
			}
			if log := query[string](t, pool, `SELECT string_agg(act || ' ' || coalesce(detail ->> 'sent', '-'), ', '
				ORDER BY id) FROM tidemark.operator_log`); log != "replay_started -, replay_ended 5" {
				t.Errorf("the log says %s", log)
			}
		})
	}
}

func TestListSaysHowFarEachPairIsBehind(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	appendTo(t, pool, 12, "a")
	mustExec(t, pool,
		"INSERT INTO tidemark.readers (topic, publisher, position, status, paused_until) VALUES ('all', 'out', 4, "+
			"'ACTIVE', 'infinity'), ('all', 'done', 12, 'PAUSED', now())")
	list, err := publications.List(t.Context(), pool, publications.Key{Topic: "all"})
	if err != nil || len(list) != 2 {
		t.Fatalf("got %+v, %v", list, err)
	}
	if done, out := list[0], list[1]; done.Behind != 0 || done.Lag != 0 || done.Status != "ACTIVE" || out.Behind != 8 ||
		out.Lag <= 0 {
		t.Errorf("got %+v", list)
	}
	mustExec(t, pool, "UPDATE tidemark.readers SET position = 12 - 20000 WHERE publisher = 'out'")
	if list, err = publications.List(t.Context(), pool, pairKey()); err != nil || len(list) != 1 ||
		list[0].Behind != 12 {
		t.Errorf("positions without events count: got %+v, %v", list, err)
	}
}
