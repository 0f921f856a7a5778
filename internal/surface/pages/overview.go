package pages

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
)

type overviewPage struct {
	*status.Status
	Problems []shownProblem
	Oldest   *outbox.Entry
	Waited   time.Duration
	Alive    int
	Speed    string // of applying events; "": not known yet
	Empty    string // time until the queue is empty, in words
	Tiles    []tile
	Unread   []string
}

type tile struct {
	Label string
	Value string
	Note  string
	Tone  string // "", ok, warn, bad
	Path  string
}

func (p *Pages) overview(ctx context.Context, _ *http.Request) (view, error) {
	s, err := p.history.reader.Read(ctx, sections()...)
	if err != nil {
		return view{}, err
	}
	last := p.history.last.Load()
	s.Compare(last)
	page := &overviewPage{Status: s, Problems: shownProblems(s), Speed: speed(last, s)}
	for section, err := range s.Unread {
		page.Unread = append(page.Unread, string(section))
		p.cfg.Logger.WarnContext(ctx, "a section of the overview could not be read", "section", string(section), "error",
			err)
	}
	page.Alive = slice.Count(s.Workers, status.Worker.Live)
	for _, q := range s.Queue {
		if o := q.Oldest; o != nil && (page.Oldest == nil || o.Since.Before(page.Oldest.Since)) {
			page.Oldest, page.Waited = o, q.At.Sub(o.Since)
		}
	}
	page.Empty = slowest(s.Lag)
	page.Tiles = tiles(page)
	return view{Title: "Overview", Data: page}, nil
}

// slowest returns the longest time to empty of any group.
func slowest(lags []status.Lag) string {
	text := "empty"
	var most time.Duration
	for _, l := range lags {
		switch {
		case l.Projection != "" || l.Events == 0:
		case l.Drain == nil:
			text = "not known yet"
		case l.Drain.Empty == nil:
			return "not draining"
		case *l.Drain.Empty >= most:
			most = *l.Drain.Empty
			text = span(most)
		}
	}
	return text
}

func tiles(page *overviewPage) []tile {
	var lag time.Duration
	var behind, waits, dead int64
	for _, q := range page.Queue {
		waits += q.Pending + q.Processing + q.Paused
		dead += q.Dead
	}
	for _, l := range page.Lag {
		if l.Projection == "" {
			lag = max(lag, l.Age)
			behind += l.Events
		}
	}
	tiles := []tile{
		{Label: "Lag", Value: span(lag), Note: count(behind) + " events behind", Tone: above(lag), Path: "/campaigns"},
		{Label: "Time to empty", Value: page.Empty, Note: count(waits) + " events wait"},
		{Label: "Oldest item", Value: "none", Note: "nothing waits for a worker", Tone: "ok"},
		{Label: "Dead", Value: count(dead), Note: "campaigns that wait for an operator", Tone: "ok", Path: "/failed"},
		{
			Label: "Workers", Value: count(int64(page.Alive)), Tone: "ok", Path: "/workers",
			Note: cmp.Or(page.Speed, fmt.Sprintf("alive, of %d known", len(page.Workers))),
		},
	}
	if behind == 0 {
		tiles[0].Value, tiles[0].Note = "none", "every group is at the head"
	}
	if worst, who := page.furthest(); worst > lag {
		tiles[0].Value, tiles[0].Tone, tiles[0].Note = span(worst), above(worst), who
	}
	if page.Empty == "not draining" {
		tiles[1].Tone = "warn"
	}
	if o := page.Oldest; o != nil {
		tiles[2].Value, tiles[2].Tone = span(page.Waited), above(page.Waited)
		tiles[2].Note = fmt.Sprintf("event %s of %s", count(o.Seq), short(o.CampaignID))
		tiles[2].Path, _ = link("/campaign", "id", o.CampaignID)
	}
	if dead > 0 {
		tiles[3].Tone = "bad"
	}
	if page.Alive == 0 {
		tiles[4].Tone = "bad"
	}
	return tiles
}

// speed returns the speed of the workers since an earlier reading, or "" if there is none.
func speed(earlier, now *status.Status) string {
	if earlier == nil || now.At.Sub(earlier.At) < time.Second {
		return ""
	}
	var events int64
	for _, w := range now.Workers {
		events += w.EventsApplied
	}
	for _, w := range earlier.Workers {
		events -= w.EventsApplied
	}
	return fmt.Sprintf("alive, %.0f events a second", max(0, float64(events)/now.At.Sub(earlier.At).Seconds()))
}

// furthest returns the greatest lag of a projection or a publisher, and a text about it. Tables that a
// rebuild builds or has replaced do not count, because nothing reads them.
func (page *overviewPage) furthest() (worst time.Duration, who string) {
	for _, l := range page.Lag {
		if l.Events > 0 && l.Age > worst && !strings.Contains(l.Projection, "~") {
			worst, who = l.Age, fmt.Sprintf("%s is %s%s behind", l.Projection, about(l.Estimated), plural(l.Events, "event"))
		}
	}
	for _, p := range page.Publishers {
		if p.Behind > 0 && p.Lag > worst && p.Status != "PAUSED" {
			worst, who = p.Lag, fmt.Sprintf("publisher %s is %s%s behind", p.Publisher, about(p.Estimated),
				plural(p.Behind, "event"))
		}
	}
	return worst, who
}

// about returns the sign of an estimate, the same as in tables.
func about(estimated bool) string {
	if estimated {
		return "≈ "
	}
	return ""
}

func above(wait time.Duration) string {
	switch {
	case wait >= 2*time.Minute:
		return "bad"
	case wait >= 10*time.Second:
		return "warn"
	}
	return "ok"
}
