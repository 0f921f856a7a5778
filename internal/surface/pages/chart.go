package pages

import (
	"fmt"
	"strings"
)

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
