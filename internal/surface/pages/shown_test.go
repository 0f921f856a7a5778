package pages

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/payload"
)

func TestARowThatTheEventHasDeletedLeadsToItsCauses(t *testing.T) {
	t.Parallel()
	state := replay.State{Projection: "scores", CampaignID: "oak", Seq: 4, Tables: []replay.StateTable{{
		Table: "scores", Key: []string{"campaign_id", "hero"}, Columns: []string{"campaign_id", "hero"},
		Rows: []json.RawMessage{json.RawMessage(`{"campaign_id": "oak", "hero": "bo"}`)},
	}, {Table: "log", Columns: []string{"line"}, Rows: []json.RawMessage{json.RawMessage(`{"line": "x"}`)}}}}
	gone := []replay.Change{{
		Kind: replay.ChangeRemoved, Table: "scores",
		Before: json.RawMessage(`{"campaign_id": "oak", "hero": "alina & <co>"}`),
	}}
	p := &replayer{}
	m := p.lay(model{}, state, gone)
	if len(m.Gone) != 1 ||
		m.Gone[0].Causes != "/campaign?id=oak&table=scores&why=scores&key=alina+%26+%3Cco%3E&seq=4#causes-title" {
		t.Errorf("the row that is gone is %+v", m.Gone)
	}
	if got := m.Tables[0].Rows[0].Causes; !strings.Contains(got, "key=bo") {
		t.Errorf("the row leads to %q", got)
	}
	if got := m.Tables[1].Rows[0].Causes; got != "" {
		t.Errorf("a row without a key leads to %q", got)
	}
	hero, err := payload.ParsePaths("$.hero")
	if err != nil {
		t.Fatal(err)
	}
	p.payloads.Redact = hero
	if m := p.lay(model{}, state, gone); m.Gone[0].Causes != "" || strings.Contains(m.Tables[0].Rows[0].Causes, "bo") {
		t.Errorf("an address says what is hidden: %+v", m)
	}
}

func TestLinesAreDrawnOfWhatWasSeen(t *testing.T) {
	t.Parallel()
	if s := newSpark("Lag", []float64{3}); s.Line != "" || s.Label != "Lag: too early for a line" {
		t.Errorf("of one value: %+v", s)
	}
	if s := newSpark("Lag", []float64{0, 10, 5}); s.Line != "0.0,31.0 50.0,2.0 100.0,16.5" || s.Area != "0,32 "+
		s.Line+" 100,32" {
		t.Errorf("of three values: %+v", s)
	}
	at := time.Date(2026, 1, 31, 13, 45, 0, 0, time.UTC)
	d := digest(&status.Status{
		At: at, Queue: []outbox.GroupReport{{
			At: at, Pending: 4, Processing: 2, Dead: 1,
			Oldest: &outbox.Entry{Since: at.Add(-time.Minute)},
		}},
		Lag: []status.Lag{
			{Behind: outbox.Behind{Group: "default", Events: 6, Age: time.Minute}},
			{Behind: outbox.Behind{Group: "default", Projection: "heroes", Events: 60}},
		},
	})
	if d.Pending != 6 || d.Dead != 1 || d.Oldest != time.Minute || d.Lag != time.Minute || d.Behind != 6 {
		t.Errorf("the sample is %+v", d)
	}
	if got := rates([]sample{{At: at}, {At: at.Add(10 * time.Second), Applied: 50}}, func(s sample) float64 {
		return float64(s.Applied)
	}); len(got) != 1 || got[0] != 5 {
		t.Errorf("the rates are %v, want 5 a second", got)
	}
}

func TestTheLagTileIsThatOfWhatIsFurthestBehind(t *testing.T) {
	t.Parallel()
	pair := func(state string, lag time.Duration) publications.Publication {
		return publications.Publication{
			Key: publications.Key{Topic: "t", Publisher: "p"}, Status: state, Behind: 3, Lag: lag,
			Errors: 1,
		}
	}
	for name, tt := range map[string]struct {
		publishers []publications.Publication
		lags       []status.Lag
		tone       string
	}{
		"nothing behind":                {nil, nil, "ok"},
		"a publisher a little behind":   {[]publications.Publication{pair("ACTIVE", time.Second)}, nil, "ok"},
		"a publisher 21 s behind":       {[]publications.Publication{pair("ACTIVE", 21*time.Second)}, nil, "warn"},
		"a publisher 21 minutes behind": {[]publications.Publication{pair("ACTIVE", 21*time.Minute)}, nil, "bad"},
		"one that has failed":           {[]publications.Publication{pair("FAILED", 21*time.Minute)}, nil, "bad"},
		"one that is paused":            {[]publications.Publication{pair("PAUSED", 21*time.Minute)}, nil, "ok"},
		"a projection": {nil, []status.Lag{{Behind: outbox.Behind{
			Projection: "p", Events: 48_344,
			Age: time.Hour,
		}}}, "bad"},
		"tables that were replaced": {nil, []status.Lag{{Behind: outbox.Behind{
			Projection: "p~previous", Events: 5,
			Age: time.Hour,
		}}}, "ok"},
	} {
		page := &overviewPage{Status: &status.Status{Publishers: tt.publishers, Lag: tt.lags}}
		if tile := tiles(page, []sample{{}})[0]; tile.Tone != tt.tone {
			t.Errorf("%s: the tile is %q (%s, %s), want %q", name, tile.Tone, tile.Value, tile.Note, tt.tone)
		}
	}
}

func TestTimeToEmptyIsTold(t *testing.T) {
	t.Parallel()
	behind := func(events int64, d *status.Drain) status.Lag {
		return status.Lag{Behind: outbox.Behind{Group: "default", Events: events}, Drain: d}
	}
	soon, late := 90*time.Second, 2*time.Hour
	for want, lags := range map[string][]status.Lag{
		"empty":         {behind(0, nil)},
		"not known yet": {behind(5, nil)},
		"not draining":  {behind(5, &status.Drain{Empty: &soon}), behind(5, &status.Drain{})},
		"2 h":           {behind(5, &status.Drain{Empty: &late}), behind(5, &status.Drain{Empty: &soon})},
	} {
		if got := slowest(lags); got != want {
			t.Errorf("%+v is empty in %q, want %q", lags, got, want)
		}
	}
}

func TestTheHeatMapKeepsTheLongestWaitOfABucketInAMinute(t *testing.T) {
	t.Parallel()
	h, at := &history{}, time.Date(2026, 1, 31, 13, 45, 30, 0, time.UTC)
	oak := bucketOf("oak")
	h.warm(at, []outbox.Waiting{{CampaignID: "oak", Since: at.Add(-time.Second)}})
	h.warm(at.Add(10*time.Second), []outbox.Waiting{{CampaignID: "oak", Since: at.Add(-20 * time.Second)}})
	h.warm(at.Add(time.Minute), nil)
	columns := h.columns()
	if len(columns) != 2 || columns[0].Waits[oak] != 30*time.Second || columns[1].Waits[oak] != 0 ||
		!columns[1].Seen[oak] {
		t.Errorf("the columns are %+v", columns)
	}
	for range 2 * heatColumns {
		at = at.Add(time.Minute)
		h.warm(at, nil)
	}
	if n := len(h.columns()); n != heatColumns {
		t.Errorf("%d columns are kept, want %d", n, heatColumns)
	}
	for d, want := range map[time.Duration]string{
		0: "0", 500 * time.Millisecond: "<1s", 7 * time.Second: "7s",
		3 * time.Minute: "3m", 5 * time.Hour: "5h",
	} {
		if got := warmth(d, true); got.Text != want {
			t.Errorf("%s is shown as %q, want %q", d, got.Text, want)
		}
	}
}
