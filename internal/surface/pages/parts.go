package pages

import (
	"fmt"
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
	case "Postgres", "journal", "table":
		return "/postgres"
	case "group", "campaign":
		return "/workers"
	}
	return ""
}

// spark is a line of a figure over time, drawn by the server: 100 wide, 32 high.
type spark struct {
	Label string // says it in words
	Line  string // points of an SVG polyline
	Area  string // of the polygon below it
}

// newSpark draws values, oldest first, from zero on. Fewer than two make no line.
func newSpark(label string, values []float64) spark {
	s := spark{Label: label}
	if len(values) < 2 {
		s.Label += ": too early for a line"
		return s
	}
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	var points strings.Builder
	for i, v := range values {
		y := 31.0
		if most > 0 {
			y = 31 - 29*max(0, v)/most
		}
		fmt.Fprintf(&points, "%.1f,%.1f ", 100*float64(i)/float64(len(values)-1), y)
	}
	s.Line = strings.TrimSpace(points.String())
	s.Area = "0,32 " + s.Line + " 100,32"
	return s
}
