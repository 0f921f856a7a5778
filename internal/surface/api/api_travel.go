package api

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/projector/replay"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// sees refuses rows of read models to roles that see no payloads: they are made of them.
func (a *API) sees(r *http.Request) error {
	if id := auth.From(r.Context()); !a.cfg.Payloads.Sees(id) {
		return problem.New(http.StatusForbidden, "rows of read models are hidden as payloads are",
			"ask a person with that role").Of("role", id.Role.String(), a.cfg.Payloads.Least.String())
	}
	return nil
}

func (a *API) asOf(r *http.Request) (any, error) {
	q := parameters(r)
	projection, seq := q.projection(), q.neededNumber("seq", 0, "the event is missing",
		"say after which event; 0 is before the first")
	if err := errors.Join(q.done(), a.sees(r)); err != nil {
		return nil, err
	}
	state, err := a.cfg.Acts.AsOf(r.Context(), projection, r.PathValue("campaign"), seq)
	if err != nil {
		return nil, err
	}
	for _, t := range state.Tables {
		for i, row := range t.Rows {
			t.Rows[i] = a.row(r, row)
		}
	}
	return document.One(state), nil
}

func (a *API) diff(r *http.Request) (any, error) {
	q := parameters(r)
	projection, to := q.projection(), q.neededNumber("to", 0, "the event is missing", "say up to which event")
	from := q.number("from", max(0, to-1), 0, math.MaxInt64)
	if from > to {
		q.refuse("from", strconv.FormatInt(from, 10), "0 to "+strconv.FormatInt(to, 10), "from is after to",
			"turn them round")
	}
	if err := errors.Join(q.done(), a.sees(r)); err != nil {
		return nil, err
	}
	changes, err := a.cfg.Acts.Diff(r.Context(), projection, r.PathValue("campaign"), from, to)
	if err != nil {
		return nil, err
	}
	for i := range changes {
		changes[i].Before, changes[i].After = a.row(r, changes[i].Before), a.row(r, changes[i].After)
	}
	return all(changes), nil
}

// why names the events that wrote the values of a row.
func (a *API) why(r *http.Request) (any, error) {
	q := parameters(r)
	request := projector.WhyRequest{
		Projection: q.projection(), CampaignID: r.PathValue("campaign"), Table: q.text("table"), Key: q.list("key"),
		Seq: q.number("seq", 0, 0, math.MaxInt64),
	}
	if err := errors.Join(q.done(), a.sees(r)); err != nil {
		return nil, err
	}
	why, err := a.cfg.Acts.Why(r.Context(), request)
	if err != nil {
		return nil, err
	}
	why.Row = a.row(r, why.Row)
	var row map[string]json.RawMessage
	if why.Row != nil {
		if err := json.Unmarshal(why.Row, &row); err != nil {
			return nil, err
		}
	}
	for i, c := range why.Causes { // what is hidden in the row is hidden here
		why.Causes[i] = replay.Cause{Column: c.Column, Value: row[c.Column], Event: a.event(r, c.Event)}
	}
	if why.Gone != nil {
		*why.Gone = a.event(r, *why.Gone)
	}
	return document.One(why), nil
}

func (a *API) row(r *http.Request, row json.RawMessage) json.RawMessage {
	return a.cfg.Payloads.Show(auth.From(r.Context()), row)
}

// differences is what a verification of one campaign found.
type differences struct {
	Projection, CampaignID string
	Skipped                bool  // the projection is being rebuilt there: nothing was compared
	Events                 int64 // applied on the way
	Tables                 []replay.VerifiedTable
	Unchecked              []string
	Differences            []replay.Difference
	NotShown               int64 // differences beyond the limit
}

// verify compares the rows of one campaign with what the journal says.
func (a *API) verify(r *http.Request) (any, error) {
	q := parameters(r)
	projection, ignore, limit := q.projection(), q.list("ignore"), q.limit()
	if err := errors.Join(q.done(), a.sees(r)); err != nil {
		return nil, err
	}
	report, found, err := a.cfg.Acts.Verify(r.Context(), projection, r.PathValue("campaign"), ignore, limit)
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i].Want, found[i].Got = a.row(r, found[i].Want), a.row(r, found[i].Got)
	}
	return document.One(differences{
		Projection: projection, CampaignID: r.PathValue("campaign"), Skipped: report.Skipped > 0, Events: report.Events,
		Tables: report.Tables, Unchecked: report.Unchecked,
		Differences: found, NotShown: report.Differences() - int64(len(found)),
	}), nil
}
