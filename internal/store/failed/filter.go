package failed

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Filter chooses pairs. The zero value of a field leaves it open.
type Filter struct {
	Group       string // consumer group
	Projection  string
	CampaignID  string
	EventType   string // of the event that failed
	Class       string // infrastructure, transient, permanent or lock
	Code        string // a SQLSTATE, panic, deadline, crash, decode or error
	Fingerprint string

	// MessagePattern is a POSIX regular expression, as Postgres understands it, that matches anywhere
	// in the message: up to 256 bytes, without back references and lookaround.
	MessagePattern string

	Status    []Status      // any of them; nil: all for [List] and [Count], Failed and Dead for acts and [Stats]
	OlderThan time.Duration // since the pair first failed at its event, or nothing says when; whole microseconds
	NewerThan time.Duration // since it first failed at its event
	After     *Place        // only pairs after it, in the order of [List]: the Place of the last pair of the page before
	Limit     int           // at most so many; 0: 100 for [List], 100,000 for [Stats], all for [Count] and acts
}

const (
	patternBytes = 256
	fieldBytes   = 4 << 10
	listLimit    = 100
	statsLimit   = 100_000

	stateInvalidPattern = "2201B"
)

// unbounded matches what makes a regular expression's cost more than linear: references to what a
// group has matched, and lookaround. A backslash may itself be escaped.
var unbounded = regexp.MustCompile(`^\*\*\*|^(?s:[^\\]|\\[^1-9])*?(?:\\[1-9]|\(\?[=!<])`)

// acting answers the filter for an act: pairs that have failed.
func (f Filter) acting() (Filter, error) {
	if slices.Contains(f.Status, Rebuilding) {
		return f, fmt.Errorf("Status holds %q: such a pair is on its way; take %q and %q", Rebuilding, Failed, Dead)
	}
	if len(f.Status) == 0 {
		f.Status = []Status{Failed, Dead}
	}
	return f, f.validate()
}

// validate says what is wrong with a filter, all of it.
func (f Filter) validate() error {
	errs := []error{
		text("Group", f.Group, fieldBytes), text("Projection", f.Projection, fieldBytes),
		text("CampaignID", f.CampaignID, fieldBytes),
		text("EventType", f.EventType, fieldBytes), text("Class", f.Class, fieldBytes), text("Code", f.Code, fieldBytes),
		text("Fingerprint", f.Fingerprint, fieldBytes), text("MessagePattern", f.MessagePattern, patternBytes),
	}
	if unbounded.MatchString(f.MessagePattern) {
		errs = append(errs,
			patternError(fmt.Sprintf("MessagePattern is %q: back references (\\1), lookaround ((?=) and directors (***) are "+
				"not taken, their cost has no bound", f.MessagePattern)))
	}
	for _, s := range f.Status {
		if !slices.Contains(Statuses(), s) {
			errs = append(errs, fmt.Errorf("Status holds %q: known are %q", s, Statuses()))
		}
	}
	if f.OlderThan < 0 {
		errs = append(errs, fmt.Errorf("OlderThan is %v: it must not be negative", f.OlderThan))
	}
	if f.NewerThan < 0 {
		errs = append(errs, fmt.Errorf("NewerThan is %v: it must not be negative", f.NewerThan))
	}
	if f.Limit < 0 {
		errs = append(errs, fmt.Errorf("Limit is %d: it must not be negative", f.Limit))
	}
	return errors.Join(errs...)
}

// args answers the arguments $1 to $17 of the statements that choose pairs. Statements are planned
// for their arguments each time (CacheDescribe keeps no plan): one statement does for all filters,
// and what a filter leaves open costs nothing.
func (f Filter) args(limit int, more ...any) []any {
	if f.Limit > 0 {
		limit = f.Limit
	}
	status := f.Status
	if len(status) == 0 {
		status = Statuses()
	}
	var most *int
	if limit > 0 {
		most = &limit
	}
	after := Place{}
	if f.After != nil {
		after = *f.After
	}
	args := []any{
		pgx.QueryExecModeCacheDescribe, status, f.Group, f.Projection, f.CampaignID, f.EventType, f.Class, f.Code,
		f.Fingerprint, f.MessagePattern,
		f.OlderThan, f.NewerThan, f.After != nil, timestamp(after.NextAttemptAt), after.NextSeq, after.CampaignID,
		after.Projection, most,
	}
	return append(args, more...)
}

// ErrPattern is returned for a [Filter] whose MessagePattern is not one that Postgres takes, or
// would cost without a bound; its message says why.
var ErrPattern = errors.New("MessagePattern is refused")

// patternError matches [ErrPattern].
type patternError string

func (e patternError) Error() string        { return string(e) }
func (e patternError) Is(target error) bool { return target == ErrPattern }

// explain names the pattern if that is what Postgres refuses.
func (f Filter) explain(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == stateInvalidPattern {
		return patternError(fmt.Sprintf("MessagePattern is %q: %s", f.MessagePattern, pgErr.Message))
	}
	return err
}
