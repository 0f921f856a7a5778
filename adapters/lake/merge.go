package lake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
)

const (
	mergedBytes = 64 << 20 // the most that a merge reads
	mergedFiles = 16       // the most files of a merge
	enough      = 8        // files of like size for a merge
	groupBytes  = 16 << 20 // of a row group in memory
)

// mergeOne merges files of one of the folders, if it has enough of like size.
func (s *Sink) mergeOne(ctx context.Context, dirs []string) error {
	for _, dir := range dirs {
		if files := alike(s.table.dirs[dir]); files != nil {
			return s.merge(ctx, dir, files)
		}
	}
	return nil
}

// alike returns files within the same eightfold of size if there are enough. So a row is rewritten
// about once for each eightfold growth of its file.
func alike(files []data) []data {
	sorted := slices.SortedFunc(slices.Values(files), func(a, b data) int { return cmp.Compare(a.size, b.size) })
	for i := 0; i+enough <= len(sorted); i++ {
		n, total := i, int64(0)
		for n < len(sorted) && n-i < mergedFiles &&
			sorted[n].size <= enough*sorted[i].size && total+sorted[n].size <= mergedBytes {
			total += sorted[n].size
			n++
		}
		if n-i >= enough {
			return sorted[i:n]
		}
	}
	return nil
}

// merge writes one file in place of several, by an entry that changes no rows.
func (s *Sink) merge(ctx context.Context, dir string, files []data) error {
	f, err := s.writeData(ctx, dir, files[0].values, func(w io.Writer) (stats, error) {
		return s.mergeInto(ctx, w, files)
	})
	if err != nil {
		return err
	}
	if err := s.commit(ctx, "OPTIMIZE", false, []data{f}, files); err != nil {
		return s.overtaken(ctx, []data{f}, err)
	}
	return nil
}

func (s *Sink) mergeInto(ctx context.Context, w io.Writer, files []data) (of stats, err error) {
	var groups []parquet.RowGroup
	for _, f := range files {
		p, in, err := s.folder.parquet(f.name)
		if err != nil {
			return of, err
		}
		defer func() { _ = in.Close() }()
		groups = append(groups, p.RowGroups()...)
		of.NumRecords += p.NumRows()
	}
	merged, err := parquet.MergeRowGroups(groups, parquet.SchemaOf(row{}), parquet.SortingRowGroupConfig(byPosition()))
	if err != nil {
		return of, err
	}
	return of, copyRows(ctx, w, merged, &of)
}

// copyRows writes sorted rows, of which it holds few in memory, and notes their positions.
func copyRows(ctx context.Context, w io.Writer, from parquet.RowGroup, of *stats) error {
	in, out := from.Rows(), newWriter(w)
	defer func() { _ = in.Close() }()
	column, _ := out.Schema().Lookup("position")
	rows, bytes, copied := make([]parquet.Row, 16), 0, int64(0) // few: a payload may be large
	for end := false; !end; {
		n, err := in.ReadRows(rows)
		if end = errors.Is(err, io.EOF); err != nil && !end {
			return err
		}
		for _, r := range rows[:n] {
			p := int64(0)
			for _, v := range r {
				if v.Column() == column.ColumnIndex {
					p = v.Int64()
				}
				if v.Kind() == parquet.ByteArray {
					bytes += len(v.ByteArray())
				}
			}
			if copied == 0 {
				of.MinValues.Position = p
			} else if p < of.MaxValues.Position {
				return fmt.Errorf("position %d comes after %d: the files are not sorted", p, of.MaxValues.Position)
			}
			of.MaxValues.Position = p
			copied++
		}
		if _, err := out.WriteRows(rows[:n]); err != nil {
			return err
		}
		if bytes > groupBytes {
			bytes = 0
			if err := errors.Join(out.Flush(), ctx.Err()); err != nil {
				return err
			}
		}
	}
	if copied != of.NumRecords {
		return fmt.Errorf("there are %d rows and %d were read", of.NumRecords, copied)
	}
	return out.Close()
}
