package failed

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
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

	Status    []Status      // any of them; nil: all for [List] and [Count], Failed and Dead for acts
	OlderThan time.Duration // since the pair first failed at its event, or nothing says when; whole microseconds
	After     *Place        // only pairs after it, in the order of [List]: the Place of the last pair of the page before
	Limit     int           // at most so many; 0: 100 for [List], all for [Count] and acts
}

const listLimit = 100

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
	errs := texts(f.Group, f.Projection, f.CampaignID, f.EventType, f.Class, f.Code, f.Fingerprint)
	for _, s := range f.Status {
		if !slices.Contains(Statuses(), s) {
			errs = append(errs, fmt.Errorf("Status holds %q: known are %q", s, Statuses()))
		}
	}
	if f.OlderThan < 0 {
		errs = append(errs, fmt.Errorf("OlderThan is %v: it must not be negative", f.OlderThan))
	}
	if f.Limit < 0 {
		errs = append(errs, fmt.Errorf("Limit is %d: it must not be negative", f.Limit))
	}
	return errors.Join(errs...)
}

// args answers the arguments $1 to $15 of the statements that choose pairs. Statements are planned
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
		f.Fingerprint, f.OlderThan, f.After != nil, timestamp(after.NextAttemptAt), after.NextSeq, after.CampaignID,
		after.Projection, most,
	}
	return append(args, more...)
}
