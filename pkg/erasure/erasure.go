package erasure

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// EventType is the type of the event that an erased campaign gets. Its payload has the number of the
// erasure and the seqs of the erased events. Only erasures append it.
const EventType = feed.Notice

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
	Catalogue *journal.Catalogue // nil: no subject fields and no personal ones

	// Archive brings archived events back to the journal, with all campaigns of their objects. nil: the
	// erasure of archived events is refused.
	Archive archive.Store

	By, Reason string // required by [Erase]
}

// DB is a pool, or a transaction's beginner.
type DB = registry.Beginner

// Certificate says what an erasure has done. Keep it: [Verify] needs its key.
type Certificate struct {
	Erasure  int64            `json:"erasure"` // its number
	Campaign string           `json:"campaign,omitempty"`
	Subjects []string         `json:"subjects,omitempty"` // the database does not keep them
	By       string           `json:"by"`
	Reason   string           `json:"reason"`
	BeganAt  time.Time        `json:"began_at"`
	EndedAt  time.Time        `json:"ended_at"`
	Events   int64            `json:"events"`                // erased
	Keys     int64            `json:"keys"`                  // deleted: no copy of the journal tells what they sealed
	Keyless  []string         `json:"without_key,omitempty"` // subjects that sealed nothing, such as tags
	Changed  map[string]int64 `json:"changed"`               // rows by table of the schema tidemark
	Replayed []string         `json:"replayed"`
	Rebuilt  []string         `json:"rebuilt"` // workers do both after the erasure has ended

	// Objects of the archive that have lines of the erased campaigns. No campaign needs them: delete them.
	Objects []string `json:"objects,omitempty"`

	Key []byte `json:"key,omitempty"`
}

// Found is what an erasure would take.
type Found struct {
	Events    int64 `json:"events"`
	Campaigns int64 `json:"campaigns"`
	Keys      int64 `json:"keys"` // of the subjects, named by the value of a subject field

	Keyless []string `json:"without_key,omitempty"` // as in [Certificate]
}

// run is an erasure under way.
type run struct {
	Request
	db       DB
	act      failed.Act
	personal []byte // by type, nil: all of the payload
	keys     []string
	keyless  []string
	resets   []rebuild.Registered

	unfinished []begun
	done       *Certificate
}

// begun is an erasure that was interrupted.
type begun struct {
	ID int64
	At time.Time
}

// Count returns what [Erase] would take. It changes nothing.
func Count(ctx context.Context, db journal.Querier, r Request) (found Found, err error) {
	defer rows.Explain(&err, "count an erasure")
	e, err := r.run()
	if err != nil {
		return found, err
	}
	if r.Campaign != "" {
		n, err := e.countCampaign(ctx, db)
		found.Events = max(n.Left, n.Archived)
		found.Campaigns = min(found.Events, 1)
		return found, err
	}
	campaigns := map[string]bool{}
	err = e.find(ctx, db, func(campaign string, seqs []int64) error {
		campaigns[campaign] = true
		found.Events += int64(len(seqs))
		return nil
	})
	found.Campaigns, found.Keys = int64(len(campaigns)), int64(len(e.keys))
	found.Keyless = e.keyless
	return found, err
}

// Erase erases, and has the workers make the read models anew. It returns when the journal and the logs
// are done; [Verify] tells whether the read models are. Each campaign is locked for the time of a few
// hundred events, as by an append. Errors: [ErrNothing], [ErrConflict]; [journal.ErrArchived] without an
// archive; [archive.ErrObject]; those of archive and database. Half of an erasure that ends with an error
// is done: repeat it.
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
	if e.unfinished, err = rows.All(ctx, db, pgx.RowToStructByPos[begun], "", queryUnfinished, r.Campaign); err != nil {
		return nil, err
	}
	if e.resets, _, err = e.readModels(ctx); err != nil {
		return nil, err
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	e.done = &Certificate{Campaign: r.Campaign, Subjects: r.Subjects, By: r.By, Reason: r.Reason, Key: key}
	for _, p := range e.resets {
		e.done.Replayed = append(e.done.Replayed, p.Name)
	}
	if len(e.unfinished) > 0 {
		err = e.record(ctx)
	}
	if err == nil && r.Campaign != "" {
		err = e.eraseCampaign(ctx)
	} else if err == nil {
		err = e.eraseSubjects(ctx)
	}
	if err == nil && e.done.Erasure == 0 {
		err = fmt.Errorf("%w: no event of %s is left that is not erased", ErrNothing, r)
	}
	if err == nil {
		_, err = rows.One(ctx, db, pgx.RowTo[int64], "", queryMark)
	}
	if err == nil {
		err = e.rebuild(ctx)
	}
	if err != nil {
		return nil, err
	}
	all := append(slice.Of(e.unfinished, func(u begun) int64 { return u.ID }), e.done.Erasure)
	if e.done.Objects, err = rows.All(ctx, db, pgx.RowTo[string], "", queryObjects, all); err != nil {
		return nil, err
	}
	for _, id := range all {
		if err := e.end(ctx, id); err != nil {
			return nil, err
		}
	}
	return e.done, nil
}

// end takes the keys of what was erased from the failure log, and ends an erasure.
func (e *run) end(ctx context.Context, id int64) error {
	subjects := slices.Clone(e.Subjects)
	for _, tag := range e.Subjects {
		if _, value, ok := strings.Cut(tag, "="); ok {
			subjects = append(subjects, value)
		}
	}
	for after := new(int64); after != nil; {
		if err := pgx.BeginFunc(ctx, e.db, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, queryEraseKeys, id, e.done.Key, subjects, *after, logRows).Scan(&after)
		}); err != nil {
			return err
		}
	}
	return pgx.BeginFunc(ctx, e.db, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, queryEnd, id).Scan(&e.done.Changed, &e.done.EndedAt)
	})
}

// String names what is erased.
func (r Request) String() string {
	if r.Campaign != "" {
		return fmt.Sprintf("campaign %q", r.Campaign)
	}
	return fmt.Sprintf("subjects %q", r.Subjects)
}

// record puts the erasure on record, once. From then on nothing is archived.
func (e *run) record(ctx context.Context) error {
	if e.done.Erasure > 0 {
		return nil
	}
	return pgx.BeginFunc(ctx, e.db, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, queryBegin, e.Campaign, e.By, e.Reason).Scan(&e.done.Erasure, &e.done.BeganAt)
	})
}

func (e *run) eraseCampaign(ctx context.Context) error {
	n, err := e.countCampaign(ctx, e.db)
	if err == nil && max(n.Left, n.Archived) > 0 {
		err = e.begin(ctx, e.Campaign)
	}
	for more := e.done.Erasure > 0; more && err == nil; {
		var n int
		n, err = e.erase(ctx, e.Campaign, nil, false)
		more = n == batchEvents
	}
	return err
}

func (e *run) eraseSubjects(ctx context.Context) error {
	err := e.find(ctx, e.db, func(campaign string, seqs []int64) error {
		if err := e.begin(ctx, campaign); err != nil {
			return err
		}
		for len(seqs) > batchEvents {
			if _, err := e.erase(ctx, campaign, seqs[:batchEvents], true); err != nil {
				return err
			}
			seqs = seqs[batchEvents:]
		}
		_, err := e.erase(ctx, campaign, seqs, false)
		return err
	})
	if err == nil && len(e.keys) > 0 {
		err = e.record(ctx)
	}
	if err == nil && e.done.Erasure > 0 { // keys of events that were appended meanwhile go too
		e.done.Keyless = e.keyless
		e.done.Keys, err = rows.One(ctx, e.db, pgx.RowTo[int64], "", queryForget, e.Subjects)
	}
	return err
}

// run checks a request.
func (r Request) run() (*run, error) {
	e := &run{Request: r}
	personal := r.Catalogue.Personal()
	switch {
	case (r.Campaign == "") == (len(r.Subjects) == 0):
		return nil, fmt.Errorf("%w: name a campaign, or subjects", ErrConflict)
	case slices.Contains(r.Subjects, ""):
		return nil, fmt.Errorf("%w: a subject's key is empty", ErrConflict)
	case r.Personal && len(personal) == 0:
		return nil, fmt.Errorf("%w: the catalogue names no personal fields: add them, or erase whole payloads", ErrConflict)
	case r.Personal:
		e.personal, _ = json.Marshal(personal) // strings cannot fail
	}
	return e, nil
}

// erase erases events of a campaign, or the first that are left if seqs is nil. It has the campaign
// replayed with the last of them.
func (e *run) erase(ctx context.Context, campaign string, seqs []int64, more bool) (n int, err error) {
	err = pgx.BeginFunc(ctx, e.db, func(tx pgx.Tx) error {
		erased, err := rows.One(ctx, tx, pgx.RowTo[[]int64], "", queryErase, e.done.Erasure, e.done.Key, campaign, seqs,
			batchEvents, e.personal)
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
		return rows.Do(ctx, tx, "", queryTraces, e.done.Erasure, campaign, seqs == nil && e.personal == nil)
	})
	e.done.Events += int64(n)
	return n, err
}
