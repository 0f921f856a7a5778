package operator

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/keys"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/store/scheduled"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/lookback"
)

// Answer tells CLI, API and pages how to present an error.
type Answer struct {
	Status int    // HTTP status; the exit code follows from it
	Remedy string // for clients of the API
	Page   string // for users of the pages; default: Remedy
	Next   string // tidemark command to run next; NOUN stands for the failed command's noun; "": none
	With   string // what Next takes from the failed command: see below
	err    error

	// In With, names in capitals become arguments and others flags, with the values that the user gave under that name.
	// NAME is the first argument.
}

// AnswerTo returns the answer to an error. It is not ok for errors of the database, but for missing privileges, the
// network or a bad request.
func AnswerTo(err error) (found Answer, ok bool) {
	const insufficientPrivilege = "42501"
	if redact.SQLState(err) == insufficientPrivilege {
		const remedy = "the database role of this program may not do it: use tidemark with a login of the operator's role " +
			"(tidemark migrate roles)"
		return Answer{Status: forbidden, Remedy: remedy, Page: remedy}, true
	}
	for _, found = range answers() {
		if errors.Is(err, found.err) {
			found.Page = cmp.Or(found.Page, found.Remedy)
			return found, true
		}
	}
	return Answer{}, false
}

// Hinted is an error with a next command that replaces the one of its answer.
type Hinted struct {
	Err  error
	Then string // without the program's name
}

func (e *Hinted) Error() string { return e.Err.Error() }

func (e *Hinted) Unwrap() error { return e.Err }

// Next returns the command.
func (e *Hinted) Next() string { return "tidemark " + e.Then }

const (
	pageGone  = "go back to the list: it may have caught up, or never have existed"
	rebuilds  = "/api/v1/rebuilds lists rebuilds, /api/v1/projections the previous tables"
	lookAgain = "look at it again"
	lookFor   = "look up the name in its list"

	bad, forbidden, notFound, conflict = http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound,
		http.StatusConflict
	refused, unavailable = http.StatusUnprocessableEntity, http.StatusServiceUnavailable
)

// answers are tried in order, because an error may wrap another.
func answers() []Answer {
	return []Answer{
		{forbidden, "ask a person with that role", "", "", "", admin.ErrForbidden},
		{unavailable, "run tidemark migrate up", "", "", "", status.ErrNoSchema},
		{refused, "use a new Idempotency-Key", "", "", "", admin.ErrKeyReused},
		{refused, "confirm with the text that is asked for", "", "", "", admin.ErrDeclined},
		{bad, "see /api/v1/openapi.yaml", "write a simpler pattern", "", "", admin.ErrInvalid},
		{notFound, "/api/v1/failed lists failed campaigns", pageGone, "failed list", "campaign", failed.ErrNotFound},
		{
			notFound, "/api/v1/resolutions lists which events are left out", pageGone, "failed resolutions", "campaign",
			failed.ErrNotResolved,
		},
		{
			notFound, "/api/v1/projections lists what is registered", pageGone, "projection list", "",
			rebuild.ErrUnknownProjection,
		},
		{notFound, "/api/v1/groups lists consumer groups", pageGone, "group list", "", outbox.ErrNotRegistered},
		{
			notFound, "/api/v1/publishers lists pairs of topics and publishers, /api/v1/parked parked events", pageGone,
			"publisher list", "", publications.ErrNotFound,
		},
		{
			notFound, "/api/v1/campaigns?prefix= finds campaigns, /api/v1/campaigns/{campaign}/events lists events", pageGone,
			"events query --help", "", event.ErrNotFound,
		},
		{
			refused, "lists show it by its place; /api/v1/failed and /api/v1/parked show what waits behind it",
			"the event's page shows what waits behind it", "", "", event.ErrUnreadable,
		},
		{conflict, "put the object back, from a copy of the archive", "", "", "", archive.ErrObject},
		{
			conflict, "POST /api/v1/campaigns/{campaign}/restore brings it back", "an operator can restore it",
			"campaign restore --help", "", event.ErrArchived,
		},
		{bad, "name a campaign, or what closed ones are", "", "campaign archive --help", "", archive.ErrInvalid},
		{notFound, "/api/v1/scheduled lists scheduled appends", pageGone, "scheduled list", "", scheduled.ErrNotFound},
		{notFound, "errors of failed campaigns and parked events name keys", "", "failed list", "", keys.ErrNotFound},
		{notFound, "/api/v1/tokens lists tokens", pageGone, "token list", "", auth.ErrNoToken},
		{notFound, lookFor, pageGone, "projection list", "", failed.ErrUnknown},
		{notFound, lookFor, "", "campaign list", "", erasure.ErrNothing},
		{
			conflict, "wait until it has ended, or until it expires, and erase again: /api/v1/erasures shows it",
			"wait until it has ended, or until it expires, and erase again", "erase list", "", erasure.ErrHeld,
		},
		{
			conflict, "erase again, with a new Idempotency-Key: the same request continues the erasure",
			"erase again: the same request continues the erasure", "erase list", "", erasure.ErrPartial,
		},
		{bad, "name a campaign, or subjects", "", "", "", erasure.ErrConflict},
		{notFound, lookFor, pageGone, "group list", "", pause.ErrUnknown},
		{notFound, lookFor, pageGone, "NOUN list", "", admin.ErrNotFound},
		{conflict, "ask another worker", "", "", "", admin.ErrNotHere},
		{conflict, "give the wrapping key that the error names", "", "", "", catalogue.ErrWrappingKey},
		{conflict, "/api/v1/pauses lists what is paused", lookAgain, "group list", "", pause.ErrNotPaused},
		{conflict, rebuilds, pageGone, "projection list", "", rebuild.ErrNoRebuild},
		{conflict, rebuilds, pageGone, "projection list", "", rebuild.ErrRebuilding},
		{conflict, rebuilds, pageGone, "projection list", "", rebuild.ErrNoPrevious},
		{
			conflict, "/api/v1/operations?kind=rollback&state=running shows it; aborting it withdraws it", lookAgain,
			"operation list", "", admin.ErrRollingBack,
		},
		{conflict, "drop what depends on them, or keep the tables", "", "projection list", "", admin.ErrNeeded},
		{
			forbidden, "ask the API of a worker of that role, or use its login", "open the pages of a worker of that role",
			"", "", rebuild.ErrNotOurs,
		},
		{
			conflict, "/api/v1/workers lists workers, with the code that they have", "look at the workers", "workers list", "",
			rebuild.ErrNoCode,
		},
		{conflict, "revoke the token first, or choose another name", "", "token revoke", "NAME", auth.ErrNameTaken},
		{conflict, "remove its projections first", "", "projection list", "", outbox.ErrInUse},
		{conflict, lookAgain, "", "failed show", "PROJECTION CAMPAIGN", failed.ErrConflict},
		{
			conflict, "act on the projection's own name; the replaced tables are dropped when their time is over", "",
			"projection list", "", failed.ErrReplaced,
		},
		{conflict, lookAgain, "", "publisher show", "NAME", publications.ErrConflict},
		{
			conflict, "allow_behind allows that many campaigns to be behind", "", "projection rollback --allow-behind -1",
			"NAME", rebuild.ErrBehind,
		},
		{conflict, lookAgain, "", "projection list", "", registry.ErrRegistered},
		{conflict, lookAgain, "", "NOUN list", "", admin.ErrChanged},
		{conflict, lookAgain, "", "", "", failed.ErrNotResettable},
		{conflict, lookAgain, "", "", "", replay.ErrNotVerifiable},
		{conflict, lookAgain, "", "", "", lookback.ErrStateTooLarge},
	}
}
