package feed

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// CampaignsRead selects the events that [ReadCampaigns] reads: those after event Seq of CampaignID,
// and those of the campaigns that sort after it, up to and including Last.
type CampaignsRead struct {
	CampaignID string
	Seq        int64
	Last       string
	Types      []string      // nil: all
	Events     int           // stop after this many
	Bytes      int64         // stop after about this many bytes of payload and metadata, but after at least one event
	Careful    bool          // leave out documents that cannot be read; see [event.Event.Unreadable]
	Archive    event.Archive // nil: archived campaigns are an error
}

// ReadCampaigns reads events of intent [event.ProjectionAndReplay] in one walk along the primary key. It
// is faster than [ReadGroup] for all campaigns. bytes is the size of payload and metadata. The
// event is reused after the call. more means that a limit ended the read: read then continues there.
func ReadCampaigns(
	ctx context.Context, db event.Querier, read *CampaignsRead, visit func(e *event.Event, bytes int),
) (more bool, err error) {
	query, args := queryReadCampaigns, []any{read.CampaignID, read.Seq, read.Last, read.Events}
	if read.Types != nil {
		query, args = queryReadCampaignsOf, append(args, read.Types)
	}
	if read.Careful {
		query = careful(query)
	}
	rows, err := db.Query(ctx, query, args...)
	if err != nil {
		return false, err
	}
	made := 0
	columns := campaignFirst(visit)
	takeRow := columns.take
	columns.take = func(r *rowReader, raw [][]byte, e *event.Event) (size int64, err error) {
		if !Archived(e) {
			size, err = takeRow(r, raw, e)
			read.CampaignID, read.Seq = e.CampaignID, e.Seq
			return size, err
		}
		if e.CampaignID = string(raw[0]); e.CampaignID != read.CampaignID {
			read.CampaignID, read.Seq = e.CampaignID, 0
		}
		err = expand(ctx, read.Archive, e, read.Seq, e.Seq, func(a *event.Event) bool {
			read.Seq = a.Seq
			if a.Intent != event.ProjectionAndReplay || read.Types != nil && !slices.Contains(read.Types, a.Type) {
				return true
			}
			bytes := len(a.Payload) + len(a.Metadata)
			visit(a, bytes)
			size += int64(bytes)
			made++
			return size < read.Bytes && made < read.Events
		})
		if made >= read.Events {
			size = max(size, read.Bytes) // no further rows
		}
		return size, err
	}
	n, size, err := eachEvent(rows, read.Bytes, columns)
	return n >= read.Events || size >= read.Bytes, err
}

// IDHash is Postgres' uuid_hash_extended(id, 0) on little-endian machines: lookup3, Bob Jenkins'
// public-domain function. XORed over events it shows whether two sets are equal.
func IDHash(id uuid.UUID) int64 {
	const start = 0x9e3779b9 + 16 + 3923095
	a := start + binary.LittleEndian.Uint32(id[0:])
	b := start + binary.LittleEndian.Uint32(id[4:])
	c := start + binary.LittleEndian.Uint32(id[8:])
	a, c = (a-c)^bits.RotateLeft32(c, 4), c+b
	b, a = (b-a)^bits.RotateLeft32(a, 6), a+c
	c, b = (c-b)^bits.RotateLeft32(b, 8), b+a
	a, c = (a-c)^bits.RotateLeft32(c, 16), c+b
	b, a = (b-a)^bits.RotateLeft32(a, 19), a+c
	c, b = (c-b)^bits.RotateLeft32(b, 4), b+a
	a += binary.LittleEndian.Uint32(id[12:])
	c = (c ^ b) - bits.RotateLeft32(b, 14)
	a = (a ^ c) - bits.RotateLeft32(c, 11)
	b = (b ^ a) - bits.RotateLeft32(a, 25)
	c = (c ^ b) - bits.RotateLeft32(b, 16)
	a = (a ^ c) - bits.RotateLeft32(c, 4)
	b = (b ^ a) - bits.RotateLeft32(a, 14)
	c = (c ^ b) - bits.RotateLeft32(b, 24)
	return int64(uint64(b)<<32 | uint64(c))
}

// GroupRead selects the events of campaigns i with After[i] < seq <= Until[i], for [ReadGroup].
type GroupRead struct {
	CampaignIDs  []string
	After, Until []int64

	// Claimed replaces the fields above: read past the checkpoints of the campaigns claimed by the
	// preceding lease.ClaimAhead on the connection. It is called when results arrive.
	Claimed func(i int) (campaignID string, after int64)

	Events  int   // stop after this many events
	Bytes   int64 // stop after about this many bytes, but after at least one event
	Careful bool  // leave out documents that cannot be read; see [event.Event.Unreadable]
	Small   bool  // fetch events beyond Bytes too and discard them: faster if there are hardly ever any

	// Expand visits the events that a stub stands for; nil: archived campaigns are an error.
	Expand func(stub *event.Event, after, until int64, visit func(*event.Event) bool) error
}

// bounded reports whether a range may end before the last event of its campaign.
func (r GroupRead) bounded() bool {
	return r.Claimed == nil && slices.ContainsFunc(r.Until, func(n int64) bool { return n < math.MaxInt64 })
}

func (r GroupRead) until(i int) int64 {
	if r.Claimed != nil || r.Until == nil {
		return math.MaxInt64
	}
	return r.Until[i]
}

// Expands returns what [GroupRead.Expand] may be.
func Expands(
	ctx context.Context, archive event.Archive,
) func(*event.Event, int64, int64, func(*event.Event) bool) error {
	return func(stub *event.Event, after, until int64, visit func(*event.Event) bool) error {
		return expand(ctx, archive, stub, after, until, visit)
	}
}

func (r GroupRead) expand(stub *event.Event, after, until int64, visit func(*event.Event) bool) error {
	if r.Expand == nil {
		return expand(context.Background(), nil, stub, after, until, visit)
	}
	return r.Expand(stub, after, until, visit)
}

// ranges returns the arguments that select the events.
func (r GroupRead) ranges(more ...any) []any {
	if r.Claimed != nil {
		return append([]any{nil, nil, nil}, more...)
	}
	return append([]any{r.CampaignIDs, r.After, r.Until}, more...)
}

func (r GroupRead) campaign(i int) (id string, after int64) {
	if r.Claimed != nil {
		return r.Claimed(i)
	}
	return r.CampaignIDs[i], r.After[i]
}

// CountGroup queues a count of the events that [ReadGroup] would read without its byte limit. visit
// gets the number for each campaign that has events, in order. archived is called for each that has
// stubs: its events cannot be counted.
func CountGroup(batch *pgx.Batch, read GroupRead, visit func(campaign, events int), archived func()) {
	left := int64(read.Events)
	var ord, head int64
	var stub bool
	batch.Queue(queryReadHeads, read.ranges()...).Query(rows.Visit([]any{&ord, &head, &stub}, func() {
		if stub {
			archived()
			return
		}
		// A campaign's events have no gaps, and a snapshot that sees one sees all before it.
		_, after := read.campaign(int(ord) - 1)
		if n := min(head-after, left); n > 0 {
			left -= n
			visit(int(ord)-1, int(n))
		}
	}))
}

// HashGroup is [CountGroup] with the XOR of the [IDHash] of the events. The database visits each event.
func HashGroup(
	batch *pgx.Batch, read GroupRead, visit func(campaign, events int, hash int64), archived func(),
) {
	var ord, n, hash int64
	var stub bool
	batch.Queue(queryReadHashes, read.ranges(read.Events)...).Query(rows.Visit([]any{&ord, &n, &hash, &stub}, func() {
		if stub {
			archived()
			return
		}
		visit(int(ord)-1, int(n), hash)
	}))
}

// ReadGroup queues the read. visit gets each event with its campaign's index and its bytes in the
// database, in order of campaign and seq. The event is reused: visit must copy what it keeps.
func ReadGroup(batch *pgx.Batch, read GroupRead, visit func(campaign int, e *event.Event, bytes int)) {
	query, args := queryReadGroup, read.ranges(read.Events, read.Bytes)
	switch bounded := read.bounded(); {
	case read.Small && bounded:
		query, args = queryReadSmallBounded, args[:4]
	case read.Small:
		query, args = queryReadSmall, args[:4]
	case bounded:
		query = queryReadGroupBounded
	}
	if read.Careful {
		query = careful(query)
	}
	previous, id, seq, made := 0, "", int64(0), 0
	take := func(r *rowReader, raw [][]byte, e *event.Event) (int64, error) {
		ord, err := r.integer(raw, 0)
		if err != nil {
			return 0, err
		}
		bytes, err := r.integer(raw, 1)
		if err != nil {
			return 0, err
		}
		campaign := int(ord) - 1
		if campaign != previous || id == "" {
			id, _ = read.campaign(campaign)
		}
		if Archived(e) {
			if _, after := read.campaign(campaign); campaign != previous || seq == 0 {
				seq = after
			}
			e.CampaignID, previous = id, campaign
			size := int64(0)
			err := read.expand(e, seq, read.until(campaign), func(a *event.Event) bool {
				n := len(a.Payload) + len(a.Metadata)
				visit(campaign, a, n)
				seq = a.Seq
				made++
				size += int64(n)
				return size < read.Bytes && made < read.Events
			})
			if made >= read.Events {
				size = max(size, read.Bytes) // no further rows
			}
			return size, err
		}
		made++
		if campaign < previous || campaign == previous && seq > 0 && e.Seq != seq+1 {
			return 0, fmt.Errorf("event %d of campaign %q came after event %d of campaign number %d: the plan has changed the "+
				"order", e.Seq, id, seq, previous)
		}
		e.CampaignID, previous, seq = id, campaign, e.Seq
		visit(campaign, e, int(bytes))
		return bytes, nil
	}
	batch.Queue(query, args...).Query(func(rows pgx.Rows) error {
		_, _, err := eachEvent(rows, read.Bytes, columns{2, take})
		return err
	})
}
