package archive

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

const (
	bucketPositions = 8192
	bufferBytes     = 32 << 20
	loadBytes       = 32 << 20
	spoolUnused     = 10 * time.Minute
)

// spool has events of objects in the order of position. Objects are in the order of campaigns, and have
// events of all times, so each is read once and its events are filed in buckets of positions: in blocks
// of a temporary file without a name. The zero value is ready.
type spool struct {
	file     *os.File
	end      int64
	instance string             // of the database whose objects it has
	has      map[string]bool    // objects
	marks    map[int64]int64    // by bucket: for which mark its events are complete
	blocks   map[int64][]block  // by bucket, in the file
	buffered map[int64][]record // by bucket, not written yet
	bytes    int                // of these
	loaded   run
	used     time.Time // when archived events were read last
	unused   *time.Timer
}

type block struct{ at, size int64 }

// run is the events after a position, up to another, which is in the same bucket.
type run struct {
	after, until int64
	records      []record
}

// record is an event of an object. The object's rank is the time at which it was archived: of a campaign
// that was restored and archived again, the last object counts.
type record struct {
	Rank, Position int64
	Line           []byte
}

func bucketOf(position int64) int64 { return (position - 1) / bucketPositions }

// ReadPositions implements [event.Positions].
func (r *Reader) ReadPositions(
	ctx context.Context, db event.Querier, mark int64, w event.Window,
) (events []event.Event, until, known int64, err error) {
	select {
	case r.spooling <- struct{}{}:
		defer func() { <-r.spooling }()
	case <-ctx.Done():
		return nil, 0, 0, ctx.Err()
	}
	s, bucket := &r.spool, bucketOf(w.After+1)
	defer func() {
		if len(events) > 0 { // reads of newer events do not keep it
			s.used = time.Now()
		}
	}()
	if mark != 0 && s.marks[bucket] != mark {
		err := s.gather(ctx, db, r.store, bucket)
		if s.used = time.Now(); s.unused == nil {
			s.unused = time.AfterFunc(spoolUnused, r.dropSpool)
		}
		if err != nil {
			return nil, 0, 0, err
		}
	}
	if known = s.marks[bucket]; known == 0 {
		return nil, w.Floor, 0, nil
	}
	if w.After < s.loaded.after || w.After >= s.loaded.until {
		if err := s.load(bucket, w.After, loadBytes); err != nil {
			return nil, 0, 0, fmt.Errorf("read archived events in order: %w", err)
		}
	}
	until = min(s.loaded.until, w.Floor)
	first := sort.Search(len(s.loaded.records), func(i int) bool { return s.loaded.records[i].Position > w.After })
	bytes := int64(0)
	for _, rec := range s.loaded.records[first:] {
		if rec.Position > until {
			break
		}
		var l line
		if err := json.Unmarshal(rec.Line, &l); err != nil {
			return nil, 0, 0, fmt.Errorf("%w: the event at position %d: %w", ErrObject, rec.Position, err)
		}
		events = append(events, *l.event())
		if bytes += int64(len(rec.Line)); len(events) >= w.Events || bytes >= w.Bytes {
			return events, rec.Position, known, nil
		}
	}
	return events, until, known, nil
}

// dropSpool frees the disk, unless the spool was used lately. What is needed is read again.
func (r *Reader) dropSpool() {
	r.spooling <- struct{}{}
	defer func() { <-r.spooling }()
	if left := spoolUnused - time.Since(r.spool.used); left > 0 {
		r.spool.unused.Reset(left)
		return
	}
	r.spool.drop()
	r.spool.unused = nil
}

// drop forgets all events.
func (s *spool) drop() {
	_ = s.file.Close() // its content is not needed
	*s = spool{unused: s.unused, used: s.used}
}

// gather files the events of the objects that a bucket's events may be in. An interrupted call is
// continued by the next.
func (s *spool) gather(ctx context.Context, db event.Querier, store Store, bucket int64) (err error) {
	type archived struct {
		Mark           int64
		Instance       string
		Rank           int64
		Object, SHA256 string
		Bytes          int64
	}
	all, err := rows.All(ctx, db, pgx.RowToStructByPos[archived], "list objects", queryBetween, bucket*bucketPositions,
		(bucket+1)*bucketPositions)
	if err != nil {
		return err
	}
	if s.instance != all[0].Instance {
		s.drop()
	}
	if s.file == nil {
		s.instance = all[0].Instance
		if s.file, err = os.CreateTemp("", "tidemark-archive-*"); err != nil {
			return err
		}
		_ = os.Remove(s.file.Name()) // it goes with the process
		s.has, s.marks = map[string]bool{}, map[int64]int64{}
		s.blocks, s.buffered = map[int64][]block{}, map[int64][]record{}
	}
	for i, a := range all {
		if a.Object == "" || s.has[a.Object+a.SHA256] {
			continue
		}
		o, err := load(ctx, store, event.Stub{Object: a.Object, SHA256: a.SHA256, Bytes: a.Bytes})
		if err == nil {
			err = s.add(o, a.Rank)
		}
		if err != nil {
			return fmt.Errorf("put archived events in order, object %d of %d: %w", i+1, len(all), err)
		}
		s.has[a.Object+a.SHA256] = true
	}
	s.marks[bucket] = all[0].Mark
	return nil
}

// add files the events of an object.
func (s *spool) add(o *object, rank int64) error {
	const name = `,"position":`
	if s.bytes >= bufferBytes { // first, so that tries on a full disk add nothing
		if err := s.flush(); err != nil {
			return err
		}
	}
	for _, lines := range o.lines {
		for text := range bytes.Lines(lines) {
			at := bytes.LastIndex(text, []byte(name)) + len(name) // no document comes after it
			digits := text[at : at+max(0, bytes.IndexByte(text[at:], ','))]
			position, err := strconv.ParseInt(string(digits), 10, 64)
			if err != nil {
				return fmt.Errorf("%w: %s: a line has no position", ErrObject, o.name)
			}
			bucket := bucketOf(position)
			s.buffered[bucket] = append(s.buffered[bucket], record{rank, position, text})
			if s.bytes += len(text); bucket == bucketOf(s.loaded.until) {
				s.loaded = run{}
			}
		}
	}
	return nil
}

// flush writes what is buffered.
func (s *spool) flush() error {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is valid
	for bucket, records := range s.buffered {
		b.Reset()
		z.Reset(&b)
		for _, rec := range records {
			_, _ = fmt.Fprintf(z, "%d %d %s", rec.Rank, rec.Position, rec.Line) // a buffer takes all
		}
		_ = z.Close()
		if _, err := s.file.WriteAt(b.Bytes(), s.end); err != nil {
			return err
		}
		s.blocks[bucket] = append(s.blocks[bucket], block{s.end, int64(b.Len())})
		s.end += int64(b.Len())
		delete(s.buffered, bucket)
	}
	s.bytes = 0
	return nil
}

// load reads a bucket's events after a position. It stops after about so many bytes, and uses twice as many.
func (s *spool) load(bucket, after int64, most int) error {
	if err := s.flush(); err != nil {
		return err
	}
	l := run{after: after, until: (bucket + 1) * bucketPositions}
	size := 0
	for _, b := range s.blocks[bucket] {
		var text []byte
		z, err := gzip.NewReader(io.NewSectionReader(s.file, b.at, b.size))
		if err == nil {
			text, err = io.ReadAll(z)
		}
		if err != nil {
			return err
		}
		for entry := range bytes.Lines(text) {
			parts := bytes.SplitN(entry, []byte(" "), 3)
			rec := record{Line: bytes.Clone(parts[2])}
			rec.Rank, _ = strconv.ParseInt(string(parts[0]), 10, 64) // as written
			rec.Position, _ = strconv.ParseInt(string(parts[1]), 10, 64)
			if rec.Position <= after || rec.Position > l.until {
				continue
			}
			l.records = append(l.records, rec)
			if size += len(rec.Line); size > 2*most {
				size = l.sort(most)
			}
		}
	}
	l.sort(most)
	s.loaded = l
	return nil
}

// sort orders the events and keeps the first of so many bytes, and at least one.
func (l *run) sort(most int) (size int) {
	slices.SortFunc(l.records, func(a, b record) int {
		return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(b.Rank, a.Rank))
	})
	l.records = slices.CompactFunc(l.records, func(a, b record) bool { return a.Position == b.Position })
	for i, rec := range l.records {
		if size += len(rec.Line); size >= most && i+1 < len(l.records) {
			clear(l.records[i+1:])
			l.records, l.until = l.records[:i+1], rec.Position
			break
		}
	}
	return size
}
