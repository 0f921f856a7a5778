package lake

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// key is what an event is known by. Positions alone do not do: a journal that is restored from a
// backup gives them to other events.
type key struct {
	Position   int64  `parquet:"position"`
	CampaignID string `parquet:"campaign_id"`
	EventID    string `parquet:"event_id"`
}

func keyOf(e *publisher.Event) key { return key{e.Position, e.CampaignID, e.ID.String()} }

// present returns which of the events are in the table. It looks into files whose positions overlap
// those of the events: none, if the events are new and come in order.
func (s *Sink) present(ctx context.Context, events []publisher.Event) (map[key]bool, error) {
	wanted := make([]key, len(events))
	for i := range events {
		wanted[i] = keyOf(&events[i])
	}
	slices.SortFunc(wanted, func(a, b key) int { return cmp.Compare(a.Position, b.Position) })
	found := map[key]bool{}
	for _, files := range s.table.dirs {
		for _, f := range files {
			from := firstAt(wanted, f.MinValues.Position)
			if from == len(wanted) || wanted[from].Position > f.MaxValues.Position {
				continue
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := s.search(f, wanted[from:], found); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// firstAt returns the index of the first key at a position or after it.
func firstAt(keys []key, position int64) int {
	i, _ := slices.BinarySearchFunc(keys, position, func(k key, p int64) int { return cmp.Compare(k.Position, p) })
	return i
}

// search adds those keys to found that the file has. It reads pages that may have a key's position.
func (s *Sink) search(f data, keys []key, found map[key]bool) error {
	p, in, err := s.folder.parquet(f.name)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	column, _ := p.Schema().Lookup("position")
	for _, group := range p.RowGroups() {
		chunk := group.ColumnChunks()[column.ColumnIndex]
		bounds, err := chunk.ColumnIndex()
		if err != nil {
			return fmt.Errorf("read %s: %w", f.name, err)
		}
		rows, err := chunk.OffsetIndex()
		if err != nil {
			return fmt.Errorf("read %s: %w", f.name, err)
		}
		for i := range bounds.NumPages() {
			from := firstAt(keys, bounds.MinValue(i).Int64())
			if from == len(keys) || keys[from].Position > bounds.MaxValue(i).Int64() {
				continue
			}
			end := group.NumRows()
			if i+1 < rows.NumPages() {
				end = rows.FirstRowIndex(i + 1)
			}
			if err := scan(group, rows.FirstRowIndex(i), end, keys, found); err != nil {
				return fmt.Errorf("read %s: %w", f.name, err)
			}
		}
	}
	return nil
}

// scan reads the rows from first up to end.
func scan(group parquet.RowGroup, first, end int64, keys []key, found map[key]bool) error {
	rows := parquet.NewGenericRowGroupReader[key](group)
	defer func() { _ = rows.Close() }()
	if err := rows.SeekToRow(first); err != nil {
		return err
	}
	for read := make([]key, 256); first < end; {
		n, err := rows.Read(read[:min(int64(len(read)), end-first)])
		for _, k := range read[:n] {
			for i := firstAt(keys, k.Position); i < len(keys) && keys[i].Position == k.Position; i++ {
				if keys[i] == k {
					found[k] = true
				}
			}
		}
		if first += int64(n); err != nil && first < end {
			return err
		}
	}
	return nil
}
