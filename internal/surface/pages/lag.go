package pages

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"
)

type heatPage struct {
	Columns []time.Time
	Rows    []heatRow
	Since   time.Time
	Legend  []legend
	Walk    int64
}

type heatRow struct {
	Name  string
	Path  string // its campaigns that wait now
	Cells []heatCell
}

type heatCell struct {
	Class string // h0 to h5
	Text  string
	Label string
	Waits bool // something waited
}

type legend struct{ Class, Text string }

// lag shows how long campaigns have waited, by bucket and minute.
func (p statusPages) lag(_ context.Context, _ *http.Request) (view, error) {
	columns := p.history.columns()
	slices.Reverse(columns) // the newest first: a narrow screen cuts the oldest off
	_, _, since := p.history.look()
	page := &heatPage{
		Since: since, Walk: heatWalk,
		Legend: []legend{
			{"h0", "nothing waits"},
			{"h1", "under 1 s"},
			{"h2", "under 10 s"},
			{"h3", "under 1 min"},
			{"h4", "under 10 min"},
			{"h5", "10 min and more"},
		},
	}
	for _, c := range columns {
		page.Columns = append(page.Columns, c.At)
	}
	for b := range heatBuckets {
		row := heatRow{Name: bucketName(b)}
		row.Path, _ = link("/campaigns", "bucket", b+1)
		for _, c := range columns {
			row.Cells = append(row.Cells, warmth(c.Waits[b], c.Seen[b]))
		}
		page.Rows = append(page.Rows, row)
	}
	return view{Title: "Lag heat map", Data: page}, nil
}

// bucketName answers what people call a bucket: they count from 1.
func bucketName(b int) string { return fmt.Sprintf("%d of %d", b+1, heatBuckets) }

// warmth answers how a wait is shown: by its colour and by its length.
func warmth(d time.Duration, seen bool) heatCell {
	switch {
	case !seen:
		return heatCell{Class: "h0", Text: "·", Label: "not looked at"}
	case d == 0:
		return heatCell{Class: "h0", Text: "0", Label: "nothing waits"}
	case d < time.Second:
		return heatCell{Class: "h1", Text: "<1s", Waits: true}
	case d < 10*time.Second:
		return heatCell{Class: "h2", Text: fmt.Sprintf("%ds", int(d.Seconds())), Waits: true}
	case d < time.Minute:
		return heatCell{Class: "h3", Text: fmt.Sprintf("%ds", int(d.Seconds())), Waits: true}
	case d < 10*time.Minute:
		return heatCell{Class: "h4", Text: fmt.Sprintf("%dm", int(d.Minutes())), Waits: true}
	case d < time.Hour:
		return heatCell{Class: "h5", Text: fmt.Sprintf("%dm", int(d.Minutes())), Waits: true}
	}
	return heatCell{Class: "h5", Text: fmt.Sprintf("%dh", int(d.Hours())), Waits: true}
}
