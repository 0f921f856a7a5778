package pages

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
)

// statusPages answers /, /lag and /postgres: what internal/status reads, and what was seen of it.
type statusPages struct {
	reader  *status.Reader
	history *history
	log     *slog.Logger
}

type overviewPage struct {
	*status.Status
	Problems []shownProblem
	Now      sample
	Groups   []groupRow
	Oldest   *outbox.Entry
	Waited   time.Duration
	Alive    int
	Since    time.Time // since when there are lines
	Empty    string    // how long until the queue is empty, in words
	Tiles    []tile
	Unread   []string
}

// tile is one figure of the overview.
type tile struct {
	Label string
	Value string
	Note  string
	Tone  string // "", ok, warn, bad
	Path  string
	Spark *spark
}

// groupRow is a group, or below it one of its projections, with how far it is behind.
type groupRow struct {
	status.Lag
	Report *outbox.GroupReport // of groups alone
	Empty  string
}

// overview shows how it stands, what is wrong, and what to do about it.
func (p statusPages) overview(ctx context.Context, _ *http.Request) (view, error) {
	s, err := p.reader.Read(ctx, sections()...)
	if err != nil {
		return view{}, err
	}
	samples, last, since := p.history.look()
	s.Compare(last)
	page := &overviewPage{Status: s, Now: digest(s), Problems: shownProblems(s), Since: since}
	for section, err := range s.Unread {
		page.Unread = append(page.Unread, string(section))
		p.log.WarnContext(ctx, "a section of the overview could not be read", "section", string(section), "error", err)
	}
	for _, w := range s.Workers {
		if w.Live() {
			page.Alive++
		}
	}
	for i, q := range s.Queue {
		if o := q.Oldest; o != nil && (page.Oldest == nil || o.Since.Before(page.Oldest.Since)) {
			page.Oldest, page.Waited = s.Queue[i].Oldest, q.At.Sub(o.Since)
		}
	}
	for _, l := range s.Lag {
		row := groupRow{Lag: l, Empty: emptyIn(l)}
		for i, q := range s.Queue {
			if l.Projection == "" && q.Group == l.Group {
				row.Report = &s.Queue[i]
			}
		}
		page.Groups = append(page.Groups, row)
	}
	page.Empty = slowest(s.Lag)
	page.Tiles = tiles(page, append(samples, page.Now))
	return view{Title: "Overview", Data: page}, nil
}

// emptyIn says when a lag is gone, at the speed at which it falls.
func emptyIn(l status.Lag) string {
	switch {
	case l.Events == 0:
		return "empty"
	case l.Drain == nil:
		return "not known yet"
	case l.Drain.Empty == nil:
		return "not draining"
	}
	return "about " + span(*l.Drain.Empty)
}

// slowest answers the time to empty of the group that takes longest.
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

func tiles(page *overviewPage, samples []sample) []tile {
	line := func(what string, value func(sample) float64) *spark {
		values := make([]float64, len(samples))
		for i, s := range samples {
			values[i] = value(s)
		}
		s := newSpark(fmt.Sprintf("%s over the last %s", what, span(page.Now.At.Sub(samples[0].At))), values)
		return &s
	}
	now := page.Now
	lag := tile{
		Label: "Lag", Value: span(now.Lag), Note: count(now.Behind) + " events behind",
		Tone: above(now.Lag, 10*time.Second, 2*time.Minute), Path: "/campaigns",
		Spark: line("Lag", func(s sample) float64 { return s.Lag.Seconds() }),
	}
	if now.Behind == 0 {
		lag.Value, lag.Note = "none", "every group is at the head"
	}
	if worst, who := page.furthest(); worst > now.Lag {
		lag.Value, lag.Tone, lag.Note = span(worst), above(worst, 10*time.Second, 2*time.Minute), who
	}
	empty := tile{
		Label: "Time to empty", Value: page.Empty, Note: count(now.Pending) + " events wait",
		Spark: line("Events that wait", func(s sample) float64 { return float64(s.Pending) }),
	}
	if page.Empty == "not draining" {
		empty.Tone = "warn"
	}
	oldest := tile{
		Label: "Oldest item", Value: "none", Note: "nothing waits for a worker", Tone: "ok",
		Spark: line("The oldest item's wait", func(s sample) float64 { return s.Oldest.Seconds() }),
	}
	if page.Oldest != nil {
		oldest.Value, oldest.Tone = span(page.Waited), above(page.Waited, 10*time.Second, 2*time.Minute)
		oldest.Note = fmt.Sprintf("event %s of %s", count(page.Oldest.Seq), short(page.Oldest.CampaignID))
		oldest.Path, _ = link("/campaign", "id", page.Oldest.CampaignID)
	}
	dead := tile{
		Label: "Dead", Value: count(now.Dead), Note: "campaigns that wait for an operator", Path: "/failed",
		Tone: "ok", Spark: line("Dead campaigns", func(s sample) float64 { return float64(s.Dead) }),
	}
	if now.Dead > 0 {
		dead.Tone = "bad"
	}
	workers := tile{
		Label: "Workers", Value: count(int64(page.Alive)),
		Note: fmt.Sprintf("alive, of %d known", len(page.Workers)), Path: "/workers", Tone: "ok", Spark: &spark{},
	}
	applied := rates(samples, func(s sample) float64 { return float64(s.Applied) })
	drawn := newSpark("Events applied a second", applied)
	workers.Spark = &drawn
	if page.Alive == 0 {
		workers.Tone = "bad"
	}
	if n := len(applied); n > 0 {
		workers.Note = fmt.Sprintf("alive, %.0f events a second", applied[n-1])
	}
	return []tile{lag, empty, oldest, dead, workers}
}

// furthest answers the greatest lag of a projection or a publisher, and whose it is. Tables that a
// rebuild has replaced, or builds, are read by none.
func (page *overviewPage) furthest() (worst time.Duration, who string) {
	for _, l := range page.Lag {
		if l.Events > 0 && l.Age > worst && !strings.Contains(l.Projection, "~") {
			worst, who = l.Age, fmt.Sprintf("%s is %s%s behind", l.Projection, about(l.Estimated), plural(l.Events, "event"))
		}
	}
	for _, p := range page.Publishers {
		if p.Behind > 0 && p.Lag > worst && p.Status != "PAUSED" {
			worst, who = p.Lag, fmt.Sprintf("publisher %s is %s%s behind", p.Publisher, about(p.Estimated()),
				plural(p.Behind, "event"))
		}
	}
	return worst, who
}

// about marks an estimate, as in tables.
func about(estimated bool) string {
	if estimated {
		return "≈ "
	}
	return ""
}

// rates answers how fast a count grew between samples, a second.
func rates(samples []sample, value func(sample) float64) []float64 {
	var out []float64
	for i := 1; i < len(samples); i++ {
		if seconds := samples[i].At.Sub(samples[i-1].At).Seconds(); seconds >= 1 {
			out = append(out, max(0, (value(samples[i])-value(samples[i-1]))/seconds))
		}
	}
	return out
}

// above answers the tone of a wait.
func above(d, warn, bad time.Duration) string {
	switch {
	case d >= bad:
		return "bad"
	case d >= warn:
		return "warn"
	}
	return "ok"
}
