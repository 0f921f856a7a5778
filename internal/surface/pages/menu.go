package pages

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/status"
)

type menuItem struct {
	Path, Name string
	Here       bool
	Count      int  // problems; 0: not shown
	Bad        bool // one of them is critical
}

// menu returns the pages of the menu, with this request's marked.
func (p *Pages) menu(r *http.Request) []menuItem {
	items := []menuItem{{Path: "/", Name: "Overview"}}
	for _, page := range listPages() {
		items = append(items, menuItem{Path: page.Path, Name: page.Title})
	}
	items = append(items, menuItem{Path: "/settings", Name: "Settings"})
	section := "/" + strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 2)[0]
	switch section {
	case "/campaign", "/event":
		section = "/campaigns"
	case "/operation", "/act":
		section = "/operations"
	}
	for i := range items {
		items[i].Here = items[i].Path == section
	}
	if last := p.history.last.Load(); last != nil { // no query for the menu
		countProblems(items, last)
	}
	return items
}

// countProblems counts the problems of each page, except notes.
func countProblems(items []menuItem, s *status.Status) {
	for _, problem := range shownProblems(s) {
		for i := range items {
			item := &items[i]
			at, _, _ := strings.Cut(problem.Path, "?")
			if at == "" || problem.Severity == status.Note || item.Path == "/" || !strings.HasPrefix(at, item.Path) {
				continue
			}
			item.Count++
			item.Bad = item.Bad || problem.Severity == status.Critical
		}
	}
}

type shownProblem struct {
	status.Problem
	Tone string // bad, warn or neutral
	Path string
}

func shownProblems(s *status.Status) []shownProblem {
	tones := map[status.Severity]string{status.Critical: "bad", status.Warning: "warn", status.Note: "neutral"}
	return slice.Of(s.Problems(), func(p status.Problem) shownProblem {
		return shownProblem{Problem: p, Tone: tones[p.Severity], Path: pathOf(p.Where)}
	})
}

func pathOf(where string) string {
	kind, name, _ := strings.Cut(where, " ")
	name, _, _ = strings.Cut(name, " of ")
	switch kind {
	case "projection":
		if strings.Contains(where, " of consumer group ") { // a pause
			return "/projections"
		}
		path, _ := link("/failed", "projection", strings.Trim(name, `"`))
		return path
	case "publisher":
		_, topic, _ := strings.Cut(where, " of topic ")
		path, _ := link("/publishers/pair", "topic", topic, "publisher", name)
		return path
	case "group", "campaign":
		return "/workers"
	}
	return ""
}

const sampleEvery = 10 * time.Second

// history keeps the last status that was read, for the menu's counts and for speeds.
type history struct {
	reader *status.Reader
	log    *slog.Logger
	last   atomic.Pointer[status.Status] // nil: nothing yet
}

func sections() []status.Section {
	return []status.Section{
		status.SectionQueue, status.SectionLag, status.SectionFailed, status.SectionPauses, status.SectionWorkers,
		status.SectionRebuilds, status.SectionPublishers, status.SectionJournal,
		status.SectionPostgres,
	}
}

// run reads the status every ten seconds until ctx ends, and returns nil.
func (h *history) run(ctx context.Context) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		if s, err := h.reader.Read(ctx, sections()...); err == nil {
			s.Compare(h.last.Load())
			h.last.Store(s)
		} else if ctx.Err() == nil {
			h.log.DebugContext(ctx, "look for what the menu counts", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
