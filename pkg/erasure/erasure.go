package erasure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// EventType is the type of the event that an erased campaign gets. Its payload has the number of the
// erasure and the seqs of the erased events. Only erasures append it.
const EventType = "events_erased"

const (
	batchEvents = 500     // of one campaign, in one transaction
	window      = 100_000 // positions looked at in one statement
	logRows     = 20_000  // of the failure log, in one statement
)

// ErrNothing is returned if there is no such campaign, or no event of the subjects. Its message names
// them. ErrConflict is returned for a request that does not say one thing.
var (
	ErrNothing  = errors.New("there is nothing to erase")
	ErrConflict = errors.New("invalid erasure")
)

// Request says what to erase: a campaign or subjects.
type Request struct {
	Campaign string   // all its events
	Subjects []string // events with one of these tags, or with one of these keys in the subject's field of the catalogue

	// Personal limits the erasure to the personal fields of the catalogue. Events of types that have none
	// keep their payload.
	Personal  bool
	Catalogue *catalogue.Catalogue // nil: no subject fields and no personal ones

	// Archive brings archived events back to the journal, with all campaigns of their objects. nil: the
	// erasure of archived events is refused.
	Archive archive.Store

	// Patience is how long [Erase] comes back to campaigns that others have locked, after the last one that it
	// could erase. Default: 10 s.
	Patience time.Duration

	By, Reason string // required by [Erase]
}

// DB begins transactions: a *pgxpool.Pool or a *pgx.Conn.
type DB interface {
	event.Querier
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Certificate says what an erasure has done, with what interrupted calls of the same request did. Keep it:
// [Verify] needs its key.
type Certificate struct {
	Erasure  int64            `json:"erasure"` // its number
	Campaign string           `json:"campaign,omitempty"`
	Subjects []string         `json:"subjects,omitempty"` // the database does not keep them
	Personal bool             `json:"personal,omitempty"` // only personal fields
	By       string           `json:"by"`
	Reason   string           `json:"reason"`
	BeganAt  time.Time        `json:"began_at"`
	EndedAt  time.Time        `json:"ended_at,omitzero"`
	Events   int64            `json:"events"`                // erased
	Keys     int64            `json:"keys"`                  // deleted: no copy of the journal tells what they sealed
	Keyless  []string         `json:"without_key,omitempty"` // subjects that sealed nothing, such as tags
	Unknown  []string         `json:"unknown,omitempty"`     // subjects that nothing was found of
	Changed  map[string]int64 `json:"changed"`               // rows by table of the schema tidemark
	Replayed []string         `json:"replayed"`
	Rebuilt  []string         `json:"rebuilt"`        // workers do both after the erasure has ended
	Left     []string         `json:"left,omitempty"` // campaigns that are still to be erased: the erasure has not ended

	// Abandoned: what is left of the request was not erased ([Abandon]), and By and Reason are of that call.
	Abandoned bool `json:"abandoned,omitempty"`

	// Objects of the archive that have lines of the erased campaigns. No campaign needs them: delete them.
	Objects []string `json:"objects,omitempty"`

	Key []byte `json:"key,omitempty"`
}

// Found is what an erasure would take.
type Found struct {
	Events    int64 `json:"events"`
	Campaigns int64 `json:"campaigns"`
	Keys      int64 `json:"keys"`      // of the subjects, named by the value of a subject field
	Scheduled int64 `json:"scheduled"` // appends that are still to be made

	// Tags of the events, in order, without those that are subjects: decisions by them will not see the events.
	// At most 1,000, and none if the erasure is of personal fields.
	Tags []string `json:"tags,omitempty"`

	Keyless []string `json:"without_key,omitempty"` // as in [Certificate]
	Unknown []string `json:"unknown,omitempty"`
}

// run is an erasure under way.
type run struct {
	Request
	db       DB
	act      failed.Act
	fields   paths // of subjects
	personal paths // nil: all of the payload
	keys     []subjectKey
	keyless  []string
	seen     map[string]bool // subjects that something was found of, at some time
	resets   []rebuild.Registered

	generation int64
	continued  bool               // it was interrupted
	left       map[string][]int64 // seqs by campaign that another session has locked, nil: all
	why        error
	done       *Certificate
}

// Count returns what [Erase] would take. It changes nothing.
func Count(ctx context.Context, db event.Querier, r Request) (found Found, err error) {
	defer rows.Explain(&err, "count an erasure")
	e, err := r.run()
	if err != nil {
		return found, err
	}
	if found.Scheduled, err = e.countScheduled(ctx, db); err != nil {
		return found, err
	}
	if r.Campaign != "" {
		n, err := e.countCampaign(ctx, db, found.Scheduled)
		found.Events = max(n.Left, n.Archived)
		found.Campaigns = min(found.Events, 1)
		if err == nil {
			err = found.tags(ctx, db, e, r.Campaign, nil)
		}
		return found, err
	}
	campaigns := map[string]bool{}
	err = e.find(ctx, db, func(ctx context.Context, campaign string, seqs []int64) error {
		campaigns[campaign] = true
		found.Events += int64(len(seqs))
		return found.tags(ctx, db, e, campaign, seqs)
	})
	found.Campaigns, found.Keys = int64(len(campaigns)), int64(len(e.keys))
	if found.Keyless = e.keyless; found.Scheduled == 0 { // these do not tell whose they are
		found.Unknown = e.unknown()
	}
	return found, err
}

// Erase erases, and has the workers make the read models anew. It returns when the journal and the logs
// are done; [Verify] tells whether the read models are. Each campaign is locked for the time of a few
// hundred events, as by an append. Errors: [ErrNothing], [ErrConflict]; a [HeldError] while another call
// carries out the same request; a [PartialError] once something is erased: the same request, also of another
// operator, continues it. Before that, [event.ErrArchived] without an archive, [archive.ErrObject], and
// those of archive and database.
func Erase(ctx context.Context, db DB, r Request) (_ *Certificate, err error) {
	defer rows.Explain(&err, "erase")
	e, err := r.run()
	if err != nil {
		return nil, err
	}
	if r.By == "" || strings.TrimSpace(r.Reason) == "" {
		return nil, fmt.Errorf("%w: By or Reason is missing: the certificate has them", ErrConflict)
	}
	e.db, e.act = db, failed.Act{By: r.By, Reason: r.Reason}
	if err = e.record(ctx, false); err != nil {
		return nil, err
	}
	defer func() {
		if err = held(err, e.done.Erasure); err != nil {
			e.release(ctx)
			err = e.partial(err)
		}
	}()
	if e.resets, _, err = e.readModels(ctx); err != nil {
		return nil, err
	}
	for _, p := range e.resets {
		e.done.Replayed = append(e.done.Replayed, p.Name)
	}
	if err = e.events(ctx); err != nil {
		return nil, err
	}
	if e.done.Erasure == 0 {
		return nil, e.nothing()
	}
	if err = e.end(ctx); err != nil {
		return nil, err
	}
	return e.done, nil
}

// events erases the events, and comes back to campaigns that were locked.
func (e *run) events(ctx context.Context) (err error) {
	scheduled, err := e.beginScheduled(ctx)
	if err != nil {
		return err
	}
	if e.Campaign != "" {
		err = e.eraseCampaign(ctx, scheduled)
	} else {
		err = e.find(ctx, e.db, e.visit)
	}
	if err == nil && len(e.keys) > 0 {
		err = e.record(ctx, true)
	}
	if err == nil {
		err = e.comeBack(ctx)
	}
	if e.done.Erasure > 0 { // processes drop the pages that they keep in memory, also if it stops here
		_, markErr := rows.One(context.WithoutCancel(ctx), e.db, pgx.RowTo[int64], "", queryMark)
		err = cmp.Or(err, markErr)
	}
	return err
}

// nothing tells why there is nothing to erase.
func (e *run) nothing() error {
	if unknown := e.unknown(); e.Campaign == "" && len(unknown) == len(e.Subjects) {
		return fmt.Errorf("%w: no event has %s, as a tag or in a subject field of the catalogue", ErrNothing, e.Request)
	}
	return fmt.Errorf("%w: no event of %s is left that is not erased", ErrNothing, e.Request)
}

// end erases what is not in the journal, has read models made anew, and ends the erasure.
func (e *run) end(ctx context.Context) error {
	if len(e.Subjects) > 0 { // keys of events that were appended meanwhile go too
		e.done.Keyless, e.done.Unknown = e.keyless, e.unknown()
		err := pgx.BeginFunc(ctx, e.db, func(tx pgx.Tx) error {
			n, err := rows.One(ctx, tx, pgx.RowTo[int64], "", queryForget, e.done.Erasure, e.generation, e.Subjects)
			e.done.Keys += n
			return err
		})
		if err != nil {
			return err
		}
	}
	return e.finish(ctx, e.eraseScheduled) // again: processes may have reacted meanwhile
}

// finish has read models made anew, takes what is left beside the journal of erased events, does also, and ends
// the erasure.
func (e *run) finish(ctx context.Context, also func(context.Context) error) error {
	err := e.rebuild(ctx)
	if err != nil {
		return err
	}
	if e.done.Objects, err = rows.All(ctx, e.db, pgx.RowTo[string], "", queryObjects, e.done.Erasure); err != nil {
		return err
	}
	subjects := append([]string{}, e.Subjects...)
	for _, tag := range e.Subjects {
		if _, value, ok := strings.Cut(tag, "="); ok {
			subjects = append(subjects, value)
		}
	}
	for after := new(int64); after != nil; {
		if err := pgx.BeginFunc(ctx, e.db, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, queryEraseKeys, e.done.Erasure, e.generation, subjects, *after, logRows).Scan(&after)
		}); err != nil {
			return err
		}
	}
	if err = also(ctx); err != nil {
		return err
	}
	if err = e.eraseOperations(ctx, subjects); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, e.db, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, queryEnd, e.done.Erasure, e.generation).Scan(&e.done.Changed, &e.done.EndedAt)
		if err == nil {
			e.done.Events, e.done.Keys = e.done.Changed["journal"], e.done.Changed["keys"]
			if e.done.Changed["scheduled"] > 0 { // these do not tell whose they were
				e.done.Unknown = nil
			}
		}
		return err
	})
}

// String names what is erased.
func (r Request) String() string {
	if r.Campaign != "" {
		return fmt.Sprintf("campaign %q", r.Campaign)
	}
	return fmt.Sprintf("subjects %q", r.Subjects)
}

func (e *run) eraseCampaign(ctx context.Context, scheduled int64) error {
	n, err := e.countCampaign(ctx, e.db, scheduled)
	if err == nil && (e.continued || max(n.Left, n.Archived) > 0) {
		err = e.visit(ctx, e.Campaign, nil)
	}
	return err
}

// run checks a request.
func (r Request) run() (*run, error) {
	e := &run{
		Request: r, fields: r.Catalogue.Subjects(), left: map[string][]int64{}, seen: map[string]bool{},
		done: &Certificate{
			Campaign: r.Campaign, Subjects: r.Subjects, Personal: r.Personal, By: r.By, Reason: r.Reason,
		},
	}
	personal := r.Catalogue.Personal()
	switch {
	case (r.Campaign == "") == (len(r.Subjects) == 0):
		return nil, fmt.Errorf("%w: name a campaign, or subjects", ErrConflict)
	case slices.Contains(r.Subjects, ""):
		return nil, fmt.Errorf("%w: a subject's key is empty", ErrConflict)
	case r.Personal && len(personal) == 0:
		return nil, fmt.Errorf("%w: the catalogue names no personal fields: add them, or erase whole payloads", ErrConflict)
	case r.Personal:
		e.personal = personal
	}
	return e, nil
}

// erase erases events of a campaign, or the first that are left if seqs is nil. It has the campaign
// replayed with the last of them.
func (e *run) erase(ctx context.Context, campaign string, seqs []int64, more bool) (n int, err error) {
	err = pgx.BeginFunc(ctx, e.db, func(tx pgx.Tx) error {
		erased, err := rows.One(ctx, tx, pgx.RowTo[[]int64], "", queryErase, e.done.Erasure, e.generation, campaign, seqs,
			batchEvents, e.Subjects)
		if n = len(erased); err != nil || more || seqs == nil && n == batchEvents {
			return err
		}
		for _, p := range e.resets {
			_, err := failed.Replay(ctx, tx, failed.ReplayRequest{
				Group: p.Group, Projection: p.Name, Campaigns: []string{campaign},
			}, e.act)
			if err != nil && !errors.Is(err, failed.ErrUnknown) { // tables that a rebuild has not made yet, or removes
				return err
			}
		}
		return rows.Do(ctx, tx, "", queryTraces, e.done.Erasure, e.generation, campaign, seqs == nil && e.personal == nil)
	})
	if err == nil {
		e.done.Events += int64(n)
	}
	return n, err
}
