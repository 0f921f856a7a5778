package lake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// batch returns the events to write, by folder, and records those that cannot be written.
func batch(events []publisher.Event, present map[key]bool, outcome *delivery.Outcome) map[string][]*publisher.Event {
	batch := map[string][]*publisher.Event{}
	for i := range events {
		e := &events[i]
		k := keyOf(e)
		if present[k] || outcome.Behind(i) {
			continue
		}
		present[k] = true // it may be in the batch twice
		dir, err := dirOf(e)
		if err != nil {
			outcome.Fail(i, err, true)
			continue
		}
		batch[dir] = append(batch[dir], e)
	}
	return batch
}

// writeAll writes a file to each folder. After an error it returns what it has written.
func (s *Sink) writeAll(ctx context.Context, batch map[string][]*publisher.Event) (added []data, err error) {
	for dir, events := range batch {
		slices.SortFunc(events, func(a, b *publisher.Event) int { return cmp.Compare(a.Position, b.Position) })
		values := map[string]string{"day": dayOf(events[0]), "type": events[0].Type}
		f, err := s.writeData(ctx, dir, values, func(w io.Writer) (stats, error) {
			rows := newWriter(w)
			for _, e := range events {
				if _, err := rows.Write([]row{rowOf(e)}); err != nil {
					return stats{}, err
				}
			}
			first, last := events[0].Position, events[len(events)-1].Position
			return stats{int64(len(events)), position{first}, position{last}}, rows.Close()
		})
		if err != nil {
			return added, err
		}
		added = append(added, f)
	}
	return added, nil
}

// dataPrefix begins the names of this sink's data files.
const dataPrefix = "tidemark-"

// writeData writes a data file for the table's next entry. Its name has that entry's number: once the
// log has the entry without the file, the file is garbage.
func (s *Sink) writeData(
	ctx context.Context, dir string, values map[string]string, fill func(io.Writer) (stats, error),
) (f data, err error) {
	f.name = fmt.Sprintf("%s/%s%020d-%s.parquet", dir, dataPrefix, s.table.version+1, uuid.NewString())
	f.size, err = s.folder.write(ctx, f.name, false, func(w io.Writer) (err error) {
		f.stats, err = fill(w)
		return err
	})
	f.values, f.modified = values, time.Now().UnixMilli()
	return f, err
}

// overtaken deletes files whose entry another process has made first, and returns any other error of
// the commit: after that the log may have the entry. Even if the folder had the entry before, it may
// be ours: NFS repeats a request whose answer was lost, and then finds what it has made.
func (s *Sink) overtaken(ctx context.Context, added []data, err error) error {
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := s.refresh(ctx); err != nil {
		return err
	}
	s.discard(added)
	return nil
}

// discard deletes files that are not in the table. Those that it cannot delete are swept later.
func (s *Sink) discard(files []data) {
	for _, f := range files {
		if !s.table.has(f.name) {
			_ = s.folder.remove(f.name)
		}
	}
}
