package admin

import (
	"bytes"
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
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Errors of all acts.
var (
	// for the act
	ErrForbidden = errors.New("the role is too low")
	// by the same person
	ErrKeyReused = errors.New("the idempotency key was used for another request: use a new one for each request")
	// with the same idempotency key
	ErrUnderWay = errors.New("the same request is being done")
	// its message says why
	ErrInvalid = errors.New("the request makes no sense")
	// its message says what
	ErrDeclined = errors.New("the confirmation does not say what it should")
	// of a count that was confirmed
	ErrChanged = errors.New("what the act is about has changed meanwhile: look at it again")
	// its message says what
	ErrNotFound = errors.New("there is no such thing")
	// publishers and projections that are code
	ErrNotHere = errors.New("this worker does not have the configuration or the code for it: ask one that does")
	// its message names them
	ErrNeeded = errors.New("other objects of the database need its tables")
	// its message names the operation
	ErrRollingBack = errors.New("a rollback of the projection is under way")
	// its message says why
	ErrSink = errors.New("the sink has not taken it")
)

const (
	reasonBytes = 4 << 10
	keyBytes    = 255

	// actTimeout is how long one statement of an act may take, whatever the pool's own limit, unless
	// the configuration says otherwise.
	actTimeout = 20 * time.Second

	// lockPatience is how long an act waits for the holder of what it needs, a worker in the middle of
	// a group for one. Others wait behind it.
	lockPatience = 10 * time.Second
)

// Request is what every act is told.
type Request struct {
	Who    auth.Identity
	Reason string // up to 4 KiB; required by acts that leave something out for good
	Key    string // idempotency key, up to 255 bytes; "": none

	// Confirm is what the person typed. Acts that change what is read, or what is published, want the
	// name of their subject.
	Confirm string
}

// Failed is who and why, for internal/store/failed.
func (r Request) Failed() failed.Act { return failed.Act{By: r.Who.Name, Reason: r.Reason} }

// Published is who and why, for internal/store/publications.
func (r Request) Published() publications.Act {
	return publications.Act{
		By: r.Who.Name, Reason: r.Reason, Way: r.Who.Way, TokenID: r.Who.TokenID, Address: r.Who.Address,
	}
}

// Outcome is what became of an act.
type Outcome struct {
	Version  int             `json:"version"`
	Act      string          `json:"act"`
	Repeated bool            `json:"repeated"` // the key had been used for the same request: this is what came of it then
	Detail   json.RawMessage `json:"detail"`   // an object that depends on the act
}

// Config is what acts need.
type Config struct {
	Pool *pgxpool.Pool // required

	// Timeout is how long one statement of an act may take; default 20s, below 0: as the pool has it.
	Timeout time.Duration

	// Publishers are those that this process can send with; nil: none.
	Publishers []publisher.Publisher
	Topics     []publisher.Topic
	Catalogue  *journal.Catalogue // has events of the journal sent as they are today; nil: as they were written

	// Projector has the code of these projections; nil: no travels in time.
	Projector   *projector.Projector
	Projections []string
}

// Acts does what operators ask for.
type Acts struct {
	cfg     Config
	travels chan struct{} // has one token: travels in time use the worker's connections
}

// New checks the configuration.
func New(cfg Config) (*Acts, error) {
	if cfg.Pool == nil {
		return nil, errors.New("admin: Pool is missing")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = actTimeout
	}
	return &Acts{cfg: cfg, travels: make(chan struct{}, 1)}, nil
}

// On answers acts for those who have the database itself: statements take as long as they take, but
// for waits for locks, and there is neither a sink nor code of projections.
func On(pool *pgxpool.Pool) *Acts {
	return &Acts{cfg: Config{Pool: pool, Timeout: -1}, travels: make(chan struct{}, 1)}
}

// Pool is the database that acts work on.
func (a *Acts) Pool() *pgxpool.Pool { return a.cfg.Pool }

// By is a request by a user of the database itself, who may do everything.
func By(name, reason string) Request {
	return Request{Who: auth.Identity{Name: name, Role: auth.Admin, Via: "database", Way: "cli"}, Reason: reason}
}

// Act is one call of an act of operators.
type Act struct {
	Kind    Kind           // the log calls it so
	Name    string         // tells acts of a kind from each other
	Role    auth.Role      // the lowest that may do it
	Asked   map[string]any // what was asked for, besides the reason: part of what a key stands for, and of the log
	Reason  bool           // one is required
	Confirm string         // what Request.Confirm must say; "": nothing
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

// DoAlone does an act that begins its transactions itself. What is written about it commits with the first of them.
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

// begin checks that the role allows the act, and that the request makes sense.
func (a *Acts) begin(r Request, t Act) (*Recorder, error) {
	if r.Who.Role < t.Role {
		return nil, fmt.Errorf("%s is for role %s, and %q is %s: %w", t.Kind, t.Role, r.Who.Name, r.Who.Role, ErrForbidden)
	}
	var errs []error
	if r.Who.Name == "" {
		errs = append(errs, errors.New("who is missing: it is written to the log"))
	}
	if t.Reason && strings.TrimSpace(r.Reason) == "" {
		errs = append(errs, errors.New("reason is missing: the log keeps why"))
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
	// The reason is part of it: the log would miss one.
	sum := sha256.Sum256(bytes.Join([][]byte{[]byte(t.Kind), []byte(t.Name), asked, []byte(r.Reason)}, []byte{0}))
	return &Recorder{
		Request: r, pool: a.cfg.Pool, timeout: a.cfg.Timeout, act: t, asked: asked, detail: asked, sum: sum[:],
	}, nil
}
