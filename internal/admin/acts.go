package admin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Errors of all acts.
var (
	// for the act
	ErrForbidden = errors.New("the role is too low")
	// by the same person
	ErrKeyReused = errors.New("the idempotency key was used for another request: use a new one for each request")
	// its message says why
	ErrInvalid = errors.New("invalid request")
	// its message says what
	ErrDeclined = errors.New("the confirmation does not match")
	// of a count that was confirmed
	ErrChanged = errors.New("it has changed meanwhile: look at it again")
	// its message says what
	ErrNotFound = errors.New("not found")
	// publishers and projections that are code
	ErrNotHere = errors.New("this worker lacks the configuration or the code for it: ask a worker that has it")
	// its message names them
	ErrNeeded = errors.New("other database objects depend on its tables")
	// its message names the operation
	ErrRollingBack = errors.New("a rollback of the projection is under way")
)

const (
	reasonBytes = 4 << 10
	keyBytes    = 255

	// actTimeout is the default statement timeout of acts. It overrides the pool's.
	actTimeout = 20 * time.Second

	// lockPatience is the lock timeout of acts, for example behind a worker in the middle of a group.
	// Other sessions queue behind the act.
	lockPatience = 10 * time.Second
)

// Request is the caller of an act, with the reason and confirmation.
type Request struct {
	Who    auth.Identity
	Reason string // up to 4 KiB; required by acts that leave out events
	Key    string // idempotency key, up to 255 bytes; "": none

	// Confirm is the text that the user typed. Acts that change what is read or published want the name
	// of their subject.
	Confirm string
}

// Failed converts the request for internal/store/failed.
func (r Request) Failed() failed.Act { return failed.Act{By: r.Who.Name, Reason: r.Reason} }

// Published converts the request for internal/store/publications.
func (r Request) Published() publications.Act {
	return publications.Act{
		By: r.Who.Name, Reason: r.Reason, Way: r.Who.Way, TokenID: r.Who.TokenID, Address: r.Who.Address,
	}
}

// Outcome is the result of an act.
type Outcome struct {
	Version  int             `json:"version"`
	Act      string          `json:"act"`
	Repeated bool            `json:"repeated"` // the key was used before for the same request, and this is its result
	Detail   json.RawMessage `json:"detail"`   // an object, by act
}

// Config configures [Acts].
type Config struct {
	Pool *pgxpool.Pool // required

	// Timeout limits each statement of an act; default 20s, below 0: the pool's limit.
	Timeout time.Duration

	// Publishers and Topics let previews of replays count the events of the topic; nil: no count.
	Publishers []publisher.Publisher
	Topics     []publisher.Topic
	Catalogue  *catalogue.Catalogue // upcasts these events; nil: as written
	Archive    archive.Store        // of campaigns; nil: none

	// Projector has the code of Projections; nil: no time travel.
	Projector   *projector.Projector
	Projections []string
}

// Acts does acts of operators. It is safe for concurrent use.
type Acts struct {
	cfg     Config
	travels chan struct{} // has one token, because time travel uses the worker's connections
}

// New returns an error if Pool is missing.
func New(cfg Config) (*Acts, error) {
	if cfg.Pool == nil {
		return nil, errors.New("admin: Pool is missing")
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, actTimeout)
	return &Acts{cfg: cfg, travels: make(chan struct{}, 1)}, nil
}

// On returns acts for direct users of the database. Only waits for locks are limited. There are no
// publishers and no code of projections.
func On(pool *pgxpool.Pool) *Acts {
	return &Acts{cfg: Config{Pool: pool, Timeout: -1}, travels: make(chan struct{}, 1)}
}

// Reading returns acts that know an event catalogue.
func (a *Acts) Reading(c *catalogue.Catalogue) *Acts {
	with := &Acts{cfg: a.cfg, travels: a.travels}
	with.cfg.Catalogue = c
	return with
}

// Storing returns acts that have an archive of campaigns.
func (a *Acts) Storing(store archive.Store) *Acts {
	with := &Acts{cfg: a.cfg, travels: a.travels}
	with.cfg.Archive = store
	return with
}

// Catalogue returns the event catalogue; nil: none.
func (a *Acts) Catalogue() *catalogue.Catalogue { return a.cfg.Catalogue }

// Archive returns the archive of campaigns; nil: none.
func (a *Acts) Archive() archive.Store { return a.cfg.Archive }

// Pool returns the pool of the database that acts change.
func (a *Acts) Pool() *pgxpool.Pool { return a.cfg.Pool }

// By returns the request of a direct user of the database, who may do everything.
func By(name, reason string) Request {
	return Request{Who: auth.Identity{Name: name, Role: auth.Admin, Via: "database", Way: "cli"}, Reason: reason}
}

// Act describes one call of an act.
type Act struct {
	Kind    Kind           // name in the log
	Name    string         // distinguishes acts of one kind
	Role    auth.Role      // lowest that may do it
	Asked   map[string]any // parameters, without the reason; kept in the log and in the idempotency key's hash
	Hidden  []any          // parameters that are only in the hash
	Reason  bool           // a reason is required
	Confirm string         // required Request.Confirm; "": none
	Logs    bool           // the act itself writes to tidemark.operator_log
}

// Do does an act in one transaction.
func (a *Acts) Do(
	ctx context.Context, r Request, t Act, do func(ctx context.Context, tx pgx.Tx) (detail any, err error),
) (*Outcome, error) {
	return a.DoAlone(ctx, r, t, func(ctx context.Context, db *Recorder) (any, error) {
		return nil, pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			detail, err := do(ctx, tx)
			if err != nil {
				return err
			}
			return db.note(detail)
		})
	})
}

// DoAlone does an act that begins its own transactions. Its records commit with the first of them.
func (a *Acts) DoAlone(
	ctx context.Context, r Request, t Act, do func(ctx context.Context, db *Recorder) (detail any, err error),
) (*Outcome, error) {
	db, err := a.begin(r, t)
	if err != nil {
		return nil, err
	}
	if err := db.look(ctx); err != nil {
		return db.answer(nil, err)
	}
	return db.answer(do(ctx, db))
}

func (a *Acts) begin(r Request, t Act) (*Recorder, error) {
	if r.Who.Role < t.Role {
		return nil, fmt.Errorf("%s is for role %s, and %q is %s: %w", t.Kind, t.Role, r.Who.Name, r.Who.Role, ErrForbidden)
	}
	var errs []error
	if r.Who.Name == "" {
		errs = append(errs, errors.New("the operator's name is missing: the log records it"))
	}
	if t.Reason && strings.TrimSpace(r.Reason) == "" {
		errs = append(errs, errors.New("reason is missing: the log records it"))
	}
	for name, field := range map[string]struct {
		value string
		limit int
	}{"reason": {r.Reason, reasonBytes}, "idempotency key": {r.Key, keyBytes}} {
		if len(field.value) > field.limit {
			errs = append(errs, fmt.Errorf("%s has %d bytes, the limit is %d: shorten it", name, len(field.value), field.limit))
		}
		if !utf8.ValidString(field.value) || strings.ContainsRune(field.value, 0) {
			errs = append(errs, fmt.Errorf("%s %q: use UTF-8 without NUL", name, field.value))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if t.Confirm != "" && strings.TrimSpace(r.Confirm) != t.Confirm {
		return nil, fmt.Errorf("%w: %q was typed: type %q", ErrDeclined, r.Confirm, t.Confirm)
	}
	asked, err := json.Marshal(t.Asked)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Kind, err)
	}
	// The reason is hashed too: a repeated key with another reason would lose that reason.
	parts := [][]byte{[]byte(t.Kind), []byte(t.Name), asked, []byte(r.Reason)}
	if len(t.Hidden) > 0 {
		parts = append(parts, fmt.Appendf(nil, "%q", t.Hidden))
	}
	sum := sha256.Sum256(bytes.Join(parts, []byte{0}))
	return &Recorder{
		Request: r, Catalogue: a.cfg.Catalogue, Archive: a.cfg.Archive,
		pool: a.cfg.Pool, timeout: a.cfg.Timeout, act: t, asked: asked,
		detail: asked, sum: sum[:],
	}, nil
}
