package feed

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestOneEventIsKeptInLittleMemory matters to readers that keep a few events of each of many reads.
func TestOneEventIsKeptInLittleMemory(t *testing.T) {
	t.Parallel()
	value := make([]byte, 100)
	r := &rowReader{fields: make([]pgconn.FieldDescription, 1)}
	r.keep(value, 0)
	if cap(r.arena) > 1024 {
		t.Errorf("%d bytes are kept for a payload of %d", cap(r.arena), len(value))
	}
	pieces, last := 1, cap(r.arena)
	for range 10_000 {
		r.keep(value, 0)
		if cap(r.arena) != last {
			pieces, last = pieces+1, cap(r.arena)
		}
	}
	if last != arenaBytes || pieces > 10 {
		t.Errorf("10,000 payloads are kept in pieces of %d bytes, after %d sizes", last, pieces)
	}
}
