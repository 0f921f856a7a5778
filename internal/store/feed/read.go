package feed

import (
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// A read holds so many events in memory at once, and about so many bytes of payload and metadata.
const (
	PageEvents = 500
	pageBytes  = 4 << 20
)

// Querier reads from the database: a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// ReadCampaign streams a campaign's events after a seq (0: from the first), in order, page by page.
// It ends at the last event there is when it gets there. An error ends it and is its last value;
// one that is an [*UnreadableError] comes with the event that it is about.
func ReadCampaign(ctx context.Context, db Querier, campaignID string, afterSeq int64) iter.Seq2[Event, error] {
	return pages(func() ([]Event, error) {
		events, err := collect(ctx, db, queryCampaignPage, campaignID, afterSeq, PageEvents, pageBytes)
		if err != nil {
			return nil, fmt.Errorf("read campaign %q after seq %d: %w", campaignID, afterSeq, err)
		}
		if len(events) > 0 {
			afterSeq = events[len(events)-1].Seq
		}
		return events, nil
	})
}

// ReadAll streams the journal after a position (0: from the first event), in order of position, up
// to the writer floor as it was when the read started: no event below it can appear later. It must
// not run inside a REPEATABLE READ or SERIALIZABLE transaction. It ends as [ReadCampaign] does.
func ReadAll(ctx context.Context, db Querier, afterPosition int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		floor, err := Floor(ctx, db)
		if err != nil {
			yield(Event{}, err)
			return
		}
		pages(func() ([]Event, error) {
			window := Window{After: afterPosition, Floor: floor, Events: PageEvents, Bytes: pageBytes}
			events, until, err := ReadWindow(ctx, db, window)
			if err == nil {
				afterPosition = until
			}
			return events, err
		})(yield)
	}
}

// Floor returns the highest position up to which the journal is complete: every event that will
// ever have a position up to it is visible to a statement sent after Floor has returned. Open
// transactions of others than appends do not hold it back.
func Floor(ctx context.Context, db Querier) (int64, error) {
	return rows.One(ctx, db, pgx.RowTo[int64], "read the writer floor", queryFloor)
}

// Get returns the event number seq of a campaign, or [ErrNotFound].
func Get(ctx context.Context, db Querier, campaignID string, seq int64) (Event, error) {
	return one(ctx, db, fmt.Sprintf("event %d of campaign %q", seq, campaignID), queryGet, campaignID, seq)
}

// Find returns the event of a campaign that has the id, or [ErrNotFound].
func Find(ctx context.Context, db Querier, campaignID string, id uuid.UUID) (Event, error) {
	return one(ctx, db, fmt.Sprintf("event %s of campaign %q", id, campaignID), queryFind, campaignID, id.String())
}

func one(ctx context.Context, db Querier, what, query string, args ...any) (Event, error) {
	events, err := collect(ctx, db, query, args...)
	if err == nil && len(events) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Event{}, fmt.Errorf("%s: %w", what, err)
	}
	if err := events[0].Unreadable(); err != nil {
		return events[0], fmt.Errorf("%s: %w", what, err)
	}
	return events[0], nil
}

// pages flattens pages; a page without events is the end.
func pages(next func() ([]Event, error)) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			events, err := next()
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, e := range events {
				if err := e.Unreadable(); err != nil {
					yield(e, err)
					return
				}
				if !yield(e, nil) {
					return
				}
			}
			if len(events) == 0 {
				return
			}
		}
	}
}

func collect(ctx context.Context, db Querier, query string, args ...any) ([]Event, error) {
	events, _, err := collectSome(ctx, db, 0, math.MaxInt64, query, args...)
	return events, err
}

// collectSome is collectBytes of a query. If that fails for what an event is, it reads again and
// leaves that event's documents out.
func collectSome(
	ctx context.Context, db Querier, expected int, limit int64, query string, args ...any,
) (events []Event, size int64, err error) {
	rows, err := db.Query(ctx, query, args...)
	if err == nil {
		events, size, err = collectBytes(rows, expected, limit)
	}
	if !CannotRead(err) {
		return events, size, err
	}
	again, againErr := db.Query(ctx, careful(query), args...)
	if againErr == nil {
		events, size, againErr = collectBytes(again, expected, limit)
	}
	if againErr != nil { // as in a transaction, which the first error has ended
		return nil, 0, err
	}
	return events, size, nil
}

// collectBytes reads rows of eventColumns until payload and metadata come to limit bytes, but not
// before the first event; what comes after is thrown away. expected is how many events are likely.
func collectBytes(rows pgx.Rows, expected int, limit int64) (events []Event, size int64, err error) {
	_, size, err = eachEvent(rows, limit, campaignFirst(func(e *Event, _ int) {
		if events == nil {
			events = make([]Event, 0, max(expected, 1))
		}
		events = append(events, *e)
	}))
	if err != nil {
		return nil, 0, err
	}
	return events, size, nil
}

// columns are those of a row from which one event is made. take makes it, and answers its size.
type columns struct {
	before int // in front of seq
	take   func(r *rowReader, raw [][]byte, e *Event) (size int64, err error)
}

// campaignFirst takes events of eventColumns.
func campaignFirst(visit func(e *Event, bytes int)) columns {
	campaign := ""
	return columns{1, func(_ *rowReader, raw [][]byte, e *Event) (int64, error) {
		if string(raw[0]) != campaign { // often several come one after the other
			campaign = string(raw[0])
		}
		e.CampaignID = campaign
		bytes := len(e.Payload) + len(e.Metadata)
		visit(e, bytes)
		return int64(bytes), nil
	}}
}

// eachEvent makes events of rows until they come to limit bytes, but not before the first one. n counts all rows.
func eachEvent(rows pgx.Rows, limit int64, c columns) (n int, size int64, err error) {
	defer rows.Close()
	if err := rows.Err(); err != nil { // rows of a connection that broke have no description
		return 0, 0, err
	}
	r := newRowReader(rows, c.before)
	var e Event
	for rows.Next() {
		if n++; size >= limit {
			continue
		}
		raw := rows.RawValues()
		e = Event{}
		if err := r.event(&e, raw[c.before:]); err != nil {
			return n, size, err
		}
		bytes, err := c.take(r, raw, &e)
		if err != nil {
			return n, size, err
		}
		size += bytes
	}
	return n, size, rows.Err()
}

// GroupRead says which events [ReadGroup] reads: of campaign i those with After[i] < seq <= Until[i].
type GroupRead struct {
	CampaignIDs  []string
	After, Until []int64

	// Claimed reads instead, without a bound, what lies past the checkpoints of the campaigns that a
	// lease.ClaimAhead before it on the connection has claimed. It is asked about them when answers
	// come in.
	Claimed func(i int) (campaignID string, after int64)

	Events  int   // stop after so many events
	Bytes   int64 // stop after about so many bytes, but not before the first event
	Careful bool  // leave out documents that cannot be read: [Event.Unreadable]
	Small   bool  // what is beyond Bytes is sent as well, and thrown away here: quicker, if there is hardly ever anything
}

// ranges are the arguments that say which events are read.
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

// CountGroup queues, on batch, a look at which events [ReadGroup] would read, without reading them:
// visit gets the number of events of each campaign that has any, in order, until there are as many
// as the limit allows. The limit on bytes does not count.
func CountGroup(batch *pgx.Batch, read GroupRead, visit func(campaign, events int)) {
	batch.Queue(queryReadHeads, read.ranges()...).Query(func(rows pgx.Rows) error {
		left := int64(read.Events)
		var ord, head int64
		_, err := pgx.ForEachRow(rows, []any{&ord, &head}, func() error {
			// A campaign's events are numbered without gaps, and who sees one sees those before it.
			_, after := read.campaign(int(ord) - 1)
			if n := min(head-after, left); n > 0 {
				left -= n
				visit(int(ord)-1, int(n))
			}
			return nil
		})
		return err
	})
}

// HashGroup is [CountGroup] with the hash of the events' ids ([IDHash], all XORed). It has to visit
// each event in the database, which CountGroup has not.
func HashGroup(batch *pgx.Batch, read GroupRead, visit func(campaign, events int, hash int64)) {
	batch.Queue(queryReadHashes, read.ranges(read.Events)...).Query(func(rows pgx.Rows) error {
		var ord, n, hash int64
		_, err := pgx.ForEachRow(rows, []any{&ord, &n, &hash}, func() error {
			visit(int(ord)-1, int(n), hash)
			return nil
		})
		return err
	})
}

// ReadGroup queues the read on batch. visit gets each event with the index of its campaign,
// campaign after campaign, in order of seq, and the memory its payload and metadata take in the
// database. The event is the next one's after the call: visit copies what it keeps.
func ReadGroup(batch *pgx.Batch, read GroupRead, visit func(campaign int, e *Event, bytes int)) {
	query, args := queryReadGroup, read.ranges(read.Events, read.Bytes)
	if read.Small {
		query, args = queryReadSmall, args[:4]
	}
	if read.Careful {
		query = careful(query)
	}
	previous, id, seq := 0, "", int64(0)
	take := func(r *rowReader, raw [][]byte, e *Event) (int64, error) {
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
