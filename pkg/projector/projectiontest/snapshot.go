package projectiontest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// snapshot has a line for each table and one for each of its rows as JSON, sorted.
type snapshot []string

// snapshot reads tables, whose names are quoted.
func (db *database) snapshot(ctx context.Context, tables []string) (s snapshot, err error) {
	for _, table := range tables {
		found, err := rows.All(ctx, db.pool, pgx.RowTo[string], "read "+table, fmt.Sprintf(formatRows, table))
		if err != nil {
			return nil, err
		}
		s = append(s, "table "+table)
		for _, row := range found {
			s = append(s, table+" "+row)
		}
	}
	return s, nil
}

// shown is the number of lines per side in a report of differences.
const shown = 10

// differences returns an error that shows the lines of only one side, or nil if a and b are equal.
func differences(nameA string, a snapshot, nameB string, b snapshot) error {
	var report strings.Builder
	for _, side := range []struct {
		sign  string
		lines []string
	}{{"-", onlyIn(a, b)}, {"+", onlyIn(b, a)}} {
		for _, line := range side.lines[:min(len(side.lines), shown)] {
			fmt.Fprintf(&report, "\n  %s %s", side.sign, line)
		}
		if more := len(side.lines) - shown; more > 0 {
			fmt.Fprintf(&report, "\n  %s and %d more", side.sign, more)
		}
	}
	if report.Len() == 0 {
		return nil
	}
	return errors.New("the tables differ (- " + nameA + ", + " + nameB + ")" + report.String())
}

// onlyIn returns the lines of a that b lacks, or has fewer times.
func onlyIn(a, b []string) []string {
	left := map[string]int{}
	for _, line := range b {
		left[line]++
	}
	var only []string
	for _, line := range a {
		if left[line]--; left[line] < 0 {
			only = append(only, line)
		}
	}
	return only
}
