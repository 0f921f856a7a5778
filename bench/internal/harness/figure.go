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
	Ratio    float64  `json:"ratio"`               // Value divided by the figure of To
	To       string   `json:"to"`                  // what Value is compared with
	MinRatio *float64 `json:"min_ratio,omitempty"` // lowest acceptable ratio; nil: there is a MaxRatio
	MaxRatio *float64 `json:"max_ratio,omitempty"` // highest acceptable ratio; nil: there is a MinRatio
}

// AtLeast returns f with a minimum ratio.
func AtLeast(limit float64, f Figure) Figure {
	f.MinRatio = &limit
	return f
}

// AtMost returns f with a maximum ratio.
func AtMost(limit float64, f Figure) Figure {
	f.MaxRatio = &limit
	return f
}

// Met reports whether the figure is within its limit.
func (f Figure) Met() bool {
	return (f.MinRatio == nil || f.Ratio >= *f.MinRatio) && (f.MaxRatio == nil || f.Ratio <= *f.MaxRatio)
}

// Limit returns the limit as text.
func (f Figure) Limit() string {
	if f.MinRatio != nil {
		return fmt.Sprintf("≥ %g", *f.MinRatio)
	}
	return fmt.Sprintf("≤ %g", *f.MaxRatio)
}

// WriteTable prints the figures, then the names of those that fall short.
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

// WriteJSON writes the figures to path as a JSON array.
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
