package migrate

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/tidemark-go/tidemark/migrations"
)

// planUp prints the SQL that would bring the schema up to a version, 0 for the newest.
func planUp(ctx context.Context, out io.Writer, url string, to int64) error {
	all, err := migrations.Status(ctx, url)
	if err != nil {
		return err
	}
	from, pending := place(all)
	if pending == 0 || to != 0 && to <= from {
		_, err := fmt.Fprintf(out, "-- the schema is at version %d: nothing would be run\n", from)
		return err
	}
	script, err := migrations.Script(from, to)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(out, script)
	return err
}

// planDown prints which migrations would be undone.
func planDown(ctx context.Context, out io.Writer, url string, to int64) error {
	all, err := migrations.Status(ctx, url)
	if err != nil {
		return err
	}
	undone := 0
	for _, step := range slices.Backward(all) {
		if step.AppliedAt == nil || step.Version <= to {
			continue
		}
		undone++
		name := step.Name
		if name == "" {
			return fmt.Errorf("version %d is unknown to this program: use the one that applied it", step.Version)
		}
		if _, err := fmt.Fprintln(out, "would undo", name); err != nil {
			return err
		}
	}
	if undone == 0 {
		_, err = fmt.Fprintln(out, "nothing would be undone")
	}
	return err
}
