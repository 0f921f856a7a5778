package pages

import (
	"strings"

	"github.com/tidemark-go/tidemark/internal/status"
)

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
