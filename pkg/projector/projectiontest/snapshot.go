package projectiontest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// snapshot is the rows of some tables as JSON, sorted.
type snapshot map[string][]string

func (s snapshot) empty() bool {
	for _, rows := range s {
		if len(rows) > 0 {
			return false
		}
	}
	return true
}

// snapshot reads tables, whose names are quoted.
func (db *database) snapshot(ctx context.Context, tables []string) (snapshot, error) {
	s := snapshot{}
	for _, table := range tables {
		rows, err := db.pool.Query(ctx, fmt.Sprintf(formatRows, table))
		if err != nil {
			return nil, err
		}
		if s[table], err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return nil, fmt.Errorf("read %s: %w", table, err)
		}
	}
	return s, nil
}

// shownRows is how many rows of a table a report of differences shows.
const shownRows = 10

// differences answers nil if a and b are equal, else an error that shows the rows that only one of them has.
func differences(nameA string, a snapshot, nameB string, b snapshot) error {
	var report strings.Builder
	tables := slices.Collect(maps.Keys(a))
	for table := range b {
		if _, ok := a[table]; !ok {
			tables = append(tables, table)
		}
	}
	slices.Sort(tables)
	for _, table := range tables {
		rowsA, inA := a[table]
		rowsB, inB := b[table]
		switch {
		case !inA:
			fmt.Fprintf(&report, "\ntable %s: only %s", table, nameB)
		case !inB:
			fmt.Fprintf(&report, "\ntable %s: only %s", table, nameA)
		default:
			writeDifferences(&report, table, onlyIn(rowsA, rowsB), onlyIn(rowsB, rowsA))
		}
	}
	if report.Len() == 0 {
		return nil
	}
	return errors.New("the tables differ (- " + nameA + ", + " + nameB + ")" + report.String())
}

func writeDifferences(report *strings.Builder, table string, onlyA, onlyB []string) {
	if len(onlyA)+len(onlyB) == 0 {
		return
	}
	fmt.Fprintf(report, "\ntable %s", table)
	for _, side := range []struct {
		sign string
		rows []string
	}{{"-", onlyA}, {"+", onlyB}} {
		for _, row := range side.rows[:min(len(side.rows), shownRows)] {
			fmt.Fprintf(report, "\n  %s %s", side.sign, row)
		}
		if more := len(side.rows) - shownRows; more > 0 {
			fmt.Fprintf(report, "\n  %s and %d more rows", side.sign, more)
		}
	}
}

// onlyIn answers the rows of a that b has not, or not so often.
func onlyIn(a, b []string) []string {
	left := map[string]int{}
	for _, row := range b {
		left[row]++
	}
	var only []string
	for _, row := range a {
		if left[row]--; left[row] < 0 {
			only = append(only, row)
		}
	}
	return only
}
