package archive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Limits of an object, which one transaction takes out of the journal, and of a campaign in it.
const (
	objectCampaigns = 500
	objectEvents    = 10_000
	objectBytes     = 16 << 20 // of payloads and metadata, about
	mostEvents      = 100_000
	mostBytes       = 64 << 20
	walked          = 2000 // campaigns that one statement looks at
)

// ErrInvalid is returned for a request that does not say one thing. The text says why.
var ErrInvalid = errors.New("invalid request for an archive")

// DB is a pool.
type DB interface {
	event.Querier
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Request says which campaigns to archive: some, or all that are closed.
type Request struct {
	Campaigns []string

	ClosedFor time.Duration // since the last event, by the database's clock
	Types     []string      // of the last event of a closed campaign

	Rate       int // events a second; 0: as fast as possible
	By, Reason string

	Progress func(Report) // after each object; may be nil
}

// Report says what was archived or restored.
type Report struct {
	Objects   int64  `json:"objects"`
	Campaigns int64  `json:"campaigns"`
	Events    int64  `json:"events"`
	Bytes     int64  `json:"bytes"`    // of the objects
	LeftOut   int64  `json:"left_out"` // campaigns
	Left      []Left `json:"left"`     // the first of these
}

// Left is a campaign that was left where it is.
type Left struct {
	CampaignID string `json:"campaign_id"`
	Reason     string `json:"reason"`
}

const mostLeft = 100

// tally is a report that several goroutines add to.
type tally struct {
	mu sync.Mutex
	Report
}

func (r *tally) leave(campaign, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leftOut(campaign, reason)
}

func (r *Report) leftOut(campaign, reason string) {
	if r.LeftOut++; len(r.Left) < mostLeft {
		r.Left = append(r.Left, Left{campaign, reason})
	}
}

func (r Request) check() error {
	switch {
	case len(r.Campaigns) > 0 == (len(r.Types) > 0):
		return fmt.Errorf("%w: name campaigns, or the types of the last event of closed ones", ErrInvalid)
	case len(r.Types) > 0 && r.ClosedFor <= 0:
		return fmt.Errorf("%w: ClosedFor is %s: say how long campaigns are closed", ErrInvalid, r.ClosedFor)
	case slices.Contains(r.Campaigns, "") || slices.Contains(r.Types, ""):
		return fmt.Errorf("%w: a campaign or type is empty", ErrInvalid)
	case r.Rate < 0:
		return fmt.Errorf("%w: the rate is %d events a second", ErrInvalid, r.Rate)
	}
	return nil
}

// batch is the campaigns of one object.
type batch struct {
	ids           []string
	events, bytes int64
}

// Count returns what [Run] would archive now, and leave. It changes nothing.
func Count(ctx context.Context, db DB, r Request) (_ Report, err error) {
	defer rows.Explain(&err, "count what can be archived")
	var done tally
	if err := r.check(); err != nil {
		return done.Report, err
	}
	err = r.choose(ctx, db, &done, func(b batch) error {
		done.Objects++
		done.Campaigns += int64(len(b.ids))
		done.Events += b.events
		return nil
	})
	return done.Report, err
}

// Run archives campaigns, an object and a transaction at a time. It can be interrupted and repeated:
// each campaign is either in the journal or in the archive. Campaigns that something still has to read
// are left, and so are those that change meanwhile. Errors: [ErrInvalid], those of store and database.
func Run(ctx context.Context, db DB, store Store, r Request) (_ Report, err error) {
	defer rows.Explain(&err, "archive")
	var done tally
	if err := r.check(); err != nil {
		return done.Report, err
	}
	if r.By == "" || r.Reason == "" {
		return done.Report, fmt.Errorf("%w: By or Reason is missing", ErrInvalid)
	}
	err = atOnce(ctx, r.Rate, func(ctx context.Context, do func(int64, func() error) error) error {
		return r.choose(ctx, db, &done, func(b batch) error {
			return do(b.events, func() error { return r.archive(ctx, db, store, b.ids, &done) })
		})
	})
	return done.Report, err
}

// objectsAtOnce is how many objects are worked on at a time: while the database makes the lines of one,
// the other is compressed and written.
const objectsAtOnce = 2

// atOnce has work pass what is to be done for so many events, at no more than a rate of them. The first
// is done alone: its transaction may record who has asked.
func atOnce(
	ctx context.Context, rate int, work func(ctx context.Context, do func(events int64, one func() error) error) error,
) error {
	began, events := time.Now(), int64(0)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(objectsAtOnce)
	err := work(ctx, func(n int64, one func() error) error {
		first := events == 0
		if rate > 0 && !loops.Rated(ctx, began, events, rate) {
			return ctx.Err()
		}
		if events += n; first {
			return one()
		}
		g.Go(one)
		return ctx.Err()
	})
	return cmp.Or(g.Wait(), err)
}

// choose passes the campaigns that may be archived, and notes the others.
func (r Request) choose(ctx context.Context, db DB, done *tally, take func(batch) error) error {
	var b batch
	flush := func() error {
		if len(b.ids) == 0 {
			return nil
		}
		full := b
		b = batch{}
		return take(full)
	}
	add := func(ids []string) error {
		type size struct {
			ID            string
			Events, Bytes int64
			Reason        *string
		}
		sizes, err := rows.All(ctx, db, pgx.RowToStructByPos[size], "", querySizes, ids)
		for _, s := range sizes {
			switch {
			case s.Reason != nil:
				done.leave(s.ID, *s.Reason)
				continue
			case s.Events > mostEvents || s.Bytes > mostBytes:
				done.leave(s.ID, fmt.Sprintf("it has %d events with %d bytes, the limits are %d and %d", s.Events, s.Bytes,
					mostEvents, mostBytes))
				continue
			}
			if err == nil && len(b.ids) > 0 && (len(b.ids) == objectCampaigns || b.events+s.Events > objectEvents ||
				b.bytes+s.Bytes > objectBytes) {
				err = flush()
			}
			b.ids, b.events, b.bytes = append(b.ids, s.ID), b.events+s.Events, b.bytes+s.Bytes
		}
		return err
	}
	if len(r.Types) == 0 {
		ids := slices.Clone(r.Campaigns)
		slices.Sort(ids)
		for part := range slices.Chunk(slices.Compact(ids), objectCampaigns) {
			if err := add(part); err != nil {
				return err
			}
		}
		return flush()
	}
	for after, more := "", true; more; {
		var ids []string
		var closed bool
		n := 0
		err := rows.Each(ctx, db, []any{&after, &closed}, func() {
			if n++; closed {
				ids = append(ids, after)
			}
		}, "find closed campaigns", queryWalk, after, walked, r.Types, r.ClosedFor)
		if err != nil {
			return err
		}
		for part := range slices.Chunk(ids, objectCampaigns) {
			if err := add(part); err != nil {
				return err
			}
		}
		more = n == walked
	}
	return flush()
}

// notKept is the remedy for a store that does not return what it was given a moment ago.
const notKept = "the store did not keep what was just written. Its campaigns are still in the journal: " +
	"check the store, and proxies before it, then run again"

// archive moves campaigns to one object.
func (r Request) archive(ctx context.Context, db DB, store Store, ids []string, done *tally) error {
	text, err := lines(ctx, db, ids)
	if feed.CannotRead(err) {
		unreadable, findErr := rows.All(ctx, db, pgx.RowTo[string], "", queryUnreadable, ids)
		if findErr != nil || len(unreadable) == 0 {
			return errors.Join(err, findErr)
		}
		for _, id := range unreadable {
			done.leave(id, "Postgres cannot print an event of it")
		}
		ids = slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(unreadable, id) })
		if len(ids) == 0 {
			return nil
		}
		text, err = lines(ctx, db, ids)
	}
	if err != nil {
		return err
	}
	name, content := compress(text)
	sum := sha256.Sum256(content)
	if err := store.Put(ctx, name, content); err != nil {
		return err
	}
	written := event.Stub{Object: name, SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(content))}
	o, err := loadOr(ctx, store, written, notKept)
	if err != nil {
		return err
	}
	if !bytes.Equal(o.text, text) {
		return fmt.Errorf("%w: %s has other lines than were written: %s", ErrObject, name, notKept)
	}
	manifest, err := json.Marshal(o.manifest())
	if err == nil {
		err = store.Put(ctx, name+".manifest.json", append(manifest, '\n'))
	}
	if err != nil {
		return err
	}
	hashes := make([][]byte, len(o.campaigns)) // of what was read back; the database computes its own
	for i, id := range o.campaigns {
		hash := sha256.Sum256(o.lines[id])
		hashes[i] = hash[:]
	}
	left := map[string]string{}
	if err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		return collect(ctx, tx, left, queryArchive, name, sum[:], len(content), o.campaigns, hashes, r.By, r.Reason)
	}); err != nil {
		return err
	}
	done.moved(o, o.campaigns, left, r.Progress)
	return nil
}

// lines returns the campaigns' events as lines.
func lines(ctx context.Context, db DB, ids []string) ([]byte, error) {
	var text bytes.Buffer
	found, err := db.Query(ctx, queryLines, ids)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		text.Write(found.RawValues()[0])
	}
	return text.Bytes(), found.Err()
}

// collect runs a statement that returns campaigns with reasons.
func collect(ctx context.Context, tx pgx.Tx, left map[string]string, sql string, args ...any) error {
	var id, reason string
	return rows.Each(ctx, tx, []any{&id, &reason}, func() { left[id] = reason }, "", sql, args...)
}

// moved counts the campaigns of an object that were moved.
func (r *tally) moved(o *object, ids []string, left map[string]string, progress func(Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(left) < len(ids) {
		r.Objects++
		r.Bytes += int64(o.size)
	}
	for _, id := range ids {
		if reason, ok := left[id]; ok {
			r.leftOut(id, reason)
			continue
		}
		r.Campaigns++
		r.Events += o.events([]string{id})
	}
	if progress != nil {
		progress(r.Report)
	}
}

// Manifest is what is written beside an object, in NAME.manifest.json, for archives without a database.
type Manifest struct {
	Object    string            `json:"object"`
	SHA256    string            `json:"sha256"`
	Bytes     int               `json:"bytes"`
	Campaigns map[string]string `json:"campaigns"` // the SHA-256 of the lines of each
}

func (o *object) manifest() Manifest {
	m := Manifest{o.name, hex.EncodeToString(o.sha256[:]), o.size, map[string]string{}}
	for id, lines := range o.lines {
		hash := sha256.Sum256(lines)
		m.Campaigns[id] = hex.EncodeToString(hash[:])
	}
	return m
}
