package feed

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemark-go/tidemark/internal/eventstate"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// rowReader makes events of rows. It reads values in their wire format: a worker reads every event
// it applies, and this takes half the time of scanning column by column. Repeated strings are
// shared and payloads are cut from larger allocations. Nothing is shared with the rows.
type rowReader struct {
	conn   *pgx.Conn // may be nil
	types  *pgtype.Map
	fields []pgconn.FieldDescription
	skip   int // columns before seq
	shared map[string]string
	arena  []byte
	boxes  []eventstate.Decoded
	boxed  int // size of the last allocation of boxes
}

// Allocations start small and double up to these sizes. A read of one event then keeps about the
// event's own size, and a read of many still allocates seldom.
const (
	arenaBytes, firstArena = 32 << 10, 512
	boxCount, firstBoxes   = 128, 2

	// epoch is 2000-01-01, where Postgres' microseconds start.
	epoch = 946684800
)

func newRowReader(rows pgx.Rows, skip int) *rowReader {
	r := &rowReader{fields: rows.FieldDescriptions(), skip: skip, shared: map[string]string{}}
	if r.conn = rows.Conn(); r.conn != nil {
		r.types = r.conn.TypeMap()
	} else {
		r.types = pgtype.NewMap()
	}
	return r
}

// event reads the columns from seq to recorded_at into e, a zero event. NULL stands for version 1,
// for the first intent, and for occurred_at equal to recorded_at.
func (r *rowReader) event(e *event.Event, raw [][]byte) (err error) {
	e.Type, e.Intent = r.share(raw[3]), event.Intent(r.share(raw[5]))
	e.AggregateType, e.AggregateID, e.Actor = r.share(raw[6]), string(raw[7]), string(raw[8])
	e.Payload, e.Metadata = r.keep(raw[10], r.skip+10), r.keep(raw[11], r.skip+11)
	state(e).Unreadable = raw[10] == nil // only a careful read sends NULL
	version := int64(1)
	for _, column := range [...]struct {
		at     int
		target *int64
	}{{0, &e.Seq}, {1, &e.Position}, {4, &version}} {
		if raw[column.at] == nil {
			continue
		}
		if *column.target, err = r.integer(raw, column.at); err != nil {
			return err
		}
	}
	e.Version = int(version)
	state(e).Archived = version == 0
	if raw[5] == nil {
		e.Intent = event.ProjectionAndReplay
	}
	if e.ID, err = r.uuid(raw[2]); err != nil {
		return err
	}
	if e.RecordedAt, err = r.time(raw[13], r.skip+13); err != nil {
		return err
	}
	if e.OccurredAt = e.RecordedAt; raw[12] != nil {
		if e.OccurredAt, err = r.time(raw[12], r.skip+12); err != nil {
			return err
		}
	}
	if raw[9] != nil {
		f := r.fields[r.skip+9]
		if err := r.types.Scan(f.DataTypeOID, f.Format, raw[9], &e.Tags); err != nil {
			return fmt.Errorf("read tags of event %d: %w", e.Seq, err)
		}
	}
	if len(r.boxes) == 0 {
		r.boxed = min(max(2*r.boxed, firstBoxes), boxCount)
		r.boxes = make([]eventstate.Decoded, r.boxed)
	}
	state(e).Decoded, r.boxes = &r.boxes[0], r.boxes[1:]
	return nil
}

// share returns the text of b, one string for all equal texts.
func (r *rowReader) share(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := r.shared[string(b)]; ok {
		return s
	}
	s := string(b)
	r.shared[s] = s
	return s
}

// keep copies a jsonb value. The binary format has a version byte in front.
func (r *rowReader) keep(b []byte, column int) []byte {
	if len(b) > 0 && r.fields[column].Format == pgtype.BinaryFormatCode &&
		r.fields[column].DataTypeOID == pgtype.JSONBOID {
		b = b[1:]
	}
	if len(b) == 0 {
		return nil
	}
	if len(b) > cap(r.arena)-len(r.arena) {
		r.arena = make([]byte, 0, max(min(max(2*cap(r.arena), firstArena), arenaBytes), len(b)))
	}
	start := len(r.arena)
	r.arena = append(r.arena, b...)
	return r.arena[start:len(r.arena):len(r.arena)]
}

// integer reads a column of raw, which is all of the row's columns or its last ones.
func (r *rowReader) integer(raw [][]byte, column int) (n int64, err error) {
	b, f := raw[column], r.fields[len(r.fields)-len(raw)+column]
	switch {
	case f.Format == pgtype.BinaryFormatCode && len(b) == 8:
		return int64(binary.BigEndian.Uint64(b)), nil
	case f.Format == pgtype.BinaryFormatCode && len(b) == 4:
		return int64(int32(binary.BigEndian.Uint32(b))), nil
	}
	if err := r.types.Scan(f.DataTypeOID, f.Format, b, &n); err != nil {
		return 0, fmt.Errorf("read %s: %w", f.Name, err)
	}
	return n, nil
}

func (r *rowReader) uuid(b []byte) (uuid.UUID, error) {
	if len(b) == 16 {
		return uuid.UUID(b), nil
	}
	id, err := uuid.ParseBytes(b)
	if err != nil {
		return id, fmt.Errorf("read event id: %w", err)
	}
	return id, nil
}

func (r *rowReader) time(b []byte, column int) (t time.Time, err error) {
	f := r.fields[column]
	if f.Format == pgtype.BinaryFormatCode && len(b) == 8 {
		micros := int64(binary.BigEndian.Uint64(b))
		return time.Unix(epoch+micros/1e6, micros%1e6*1000), nil
	}
	err = r.types.Scan(f.DataTypeOID, f.Format, b, &t)
	if err != nil && r.conn != nil {
		err = cmp.Or(CheckTimes(r.conn), err)
	}
	if err != nil {
		return t, fmt.Errorf("read %s: %w", f.Name, err)
	}
	return t, nil
}
