package pages

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemark-go/tidemark/internal/status"
)

// menuItem is a line of the menu.
type menuItem struct {
	Path, Name string
	Here       bool
	Count      int  // of problems; 0: none is shown
	Bad        bool // one of them is critical
}

// menu answers the pages in the order in which a person on call needs them.
func (p *Pages) menu(r *http.Request) []menuItem {
	items := []menuItem{
		{Path: "/", Name: "Overview"},
		{Path: "/campaigns", Name: "Campaigns"},
		{Path: "/failed", Name: "Failed"},
		{Path: "/parked", Name: "Parked"},
		{Path: "/operations", Name: "Operations"},
		{Path: "/projections", Name: "Projections"},
		{Path: "/publishers", Name: "Publishers"},
		{Path: "/workers", Name: "Workers"},
		{Path: "/audit", Name: "Audit"},
		{Path: "/settings", Name: "Settings"},
	}
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
	if last := p.history.last.Load(); last != nil { // a page costs nothing for its menu
		countProblems(items, last)
	}
	return items
}

// countProblems counts beside each page the problems that it shows more of, but for notes.
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

// shownProblem is a problem with the page that shows more of it.
type shownProblem struct {
	status.Problem
	Tone string // bad, warn or neutral
	Path string
}

// shownProblems answers what is wrong, the worst first.
func shownProblems(s *status.Status) []shownProblem {
	problems := s.Problems()
	out := make([]shownProblem, len(problems))
	for i, p := range problems {
		out[i] = shownProblem{Problem: p, Tone: "warn", Path: pathOf(p.Where)}
		switch p.Severity {
		case status.Critical:
			out[i].Tone = "bad"
		case status.Note:
			out[i].Tone = "neutral"
		}
	}
	return out
}

// pathOf answers the page that is about what a problem names.
func pathOf(where string) string {
	kind, name, _ := strings.Cut(where, " ")
	name, _, _ = strings.Cut(name, " of ")
	switch kind {
	case "projection":
		if strings.Contains(where, " of consumer group ") { // it is paused
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

// sampleEvery lies between two looks of a history.
const sampleEvery = 10 * time.Second

// history is what this process has seen last: the menu counts by it, and speeds are told from it.
type history struct {
	reader *status.Reader
	log    *slog.Logger
	last   atomic.Pointer[status.Status] // nil: nothing yet
}

// sections are what the overview shows.
func sections() []status.Section {
	return []status.Section{
		status.SectionQueue, status.SectionLag, status.SectionDeferred, status.SectionPauses, status.SectionWorkers,
		status.SectionRebuilds, status.SectionPublishers, status.SectionJournal,
		status.SectionPostgres,
	}
}

// run looks every ten seconds until ctx ends, and returns nil.
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
