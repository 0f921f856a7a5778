package harness

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
)

// Figure is one line of the result.
type Figure struct {
	Name     string   `json:"name"`
	Value    float64  `json:"value"`
	Unit     string   `json:"unit"`
	Ratio    float64  `json:"ratio"`               // Value to what To says
	To       string   `json:"to"`                  // what the ratio is to
	MinRatio *float64 `json:"min_ratio,omitempty"` // the least ratio that will do; nil: there is a MaxRatio
	MaxRatio *float64 `json:"max_ratio,omitempty"` // the greatest ratio that will do; nil: there is a MinRatio
}

// AtLeast is a figure that should be limit times what it is compared to, or more.
func AtLeast(limit float64, f Figure) Figure {
	f.MinRatio = &limit
	return f
}

// AtMost is a figure that should be limit times what it is compared to, or less.
func AtMost(limit float64, f Figure) Figure {
	f.MaxRatio = &limit
	return f
}

// Met says whether the figure keeps its limit.
func (f Figure) Met() bool {
	return (f.MinRatio == nil || f.Ratio >= *f.MinRatio) && (f.MaxRatio == nil || f.Ratio <= *f.MaxRatio)
}

// Limit is the limit for a person to read.
func (f Figure) Limit() string {
	if f.MinRatio != nil {
		return fmt.Sprintf("≥ %g", *f.MinRatio)
	}
	return fmt.Sprintf("≤ %g", *f.MaxRatio)
}

// WriteTable prints the figures and, below them, which fall short.
func WriteTable(w io.Writer, figures []Figure) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FIGURE\tVALUE\tUNIT\tRATIO\tTO\tLIMIT\t")
	var short []string
	for _, f := range figures {
		verdict := "met"
		if !f.Met() {
			verdict = "FALLS SHORT"
			short = append(short, f.Name)
		}
		fmt.Fprintf(table, "%s\t%.4g\t%s\t%.2f\t%s\t%s\t%s\n", f.Name, f.Value, f.Unit, f.Ratio, f.To, f.Limit(), verdict)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	if len(short) == 0 {
		_, err := fmt.Fprintf(w, "\nbench: all %d figures met\n", len(figures))
		return err
	}
	_, err := fmt.Fprintf(w, "\nbench: %d of %d figures fall short: %v\n", len(short), len(figures), short)
	return err
}

// WriteJSON writes the figures to path, a list of objects.
func WriteJSON(path string, figures []Figure) error {
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the figures: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	return nil
}
