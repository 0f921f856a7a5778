package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// actBytes bounds the form of an act.
const actBytes = 64 << 10

// acting does one act with what its form says, and answers what to tell the person.
type acting func(ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request) (*admin.Outcome, string, error)

// act answers the form of an act: it is done, or it says why not, and the page that it came from is
// shown again, with its filter.
func (p *Pages) act(do acting) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, actBytes)
		if err := r.ParseForm(); err != nil {
			p.write(r.Context(), w, r, p.failed(r.Context(),
				problem.New(http.StatusBadRequest, "that was no form of at most 64 KiB", "shorten the reason")))
			return
		}
		req := admin.Request{
			Who: auth.From(r.Context()), Reason: strings.TrimSpace(r.PostFormValue("reason")),
			Key: r.PostFormValue("key"), Confirm: r.PostFormValue("confirm"),
		}
		outcome, text, err := do(r.Context(), p.cfg.Acts, req, r)
		switch {
		case errors.Is(err, admin.ErrForbidden):
			p.write(r.Context(), w, r, p.failed(r.Context(), err))
			return
		case err != nil:
			field := r.PostFormValue("field")
			p.say(w, r, flash{
				Tone: "bad", Text: "Not done.", More: p.explain(r.Context(), err), Field: field,
				Typed: req.Reason,
			})
		case outcome != nil && outcome.Repeated:
			p.say(w, r, flash{
				Tone: "warn", Text: "This form was sent before; it has been done once.", More: text,
				Path: operationOf(outcome),
			})
		default:
			p.say(w, r, flash{Tone: "ok", Text: text, Path: operationOf(outcome)})
		}
		http.Redirect(w, r, backTo(r, "/"), http.StatusSeeOther)
	})
}

// explain says why an act was not done. Details of the inside are in the log alone.
func (p *Pages) explain(ctx context.Context, err error) string {
	var refused *problem.Problem
	var pgErr *pgconn.PgError
	switch {
	case errors.As(err, &refused):
		return refused.Error()
	case errors.As(err, &pgErr) && (pgErr.Code == "57014" || pgErr.Code == "55P03"):
		return "The database took too long; somebody else may be at work on it. Try again."
	case errors.As(err, &pgErr) && !strings.HasPrefix(pgErr.Code, "TM"):
		p.cfg.Logger.ErrorContext(ctx, "act of an operator", "error", err)
		return "The database refused; the worker's log says why."
	}
	return redact.Error(err)
}

// confirmed wants the form to say what the person typed.
func confirmed(r *http.Request, want string) error {
	if got := strings.TrimSpace(r.PostFormValue("confirm")); got != want {
		return problem.New(http.StatusBadRequest, fmt.Sprintf("the confirmation is %q", got),
			fmt.Sprintf("type %q", want)).Of("confirm", got, want)
	}
	return nil
}

// lasting reads how long a pause lasts; 0: until it is resumed.
func lasting(r *http.Request) (time.Duration, error) {
	value := r.PostFormValue("for")
	if value == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return 0, problem.New(http.StatusBadRequest, "for is no length of time", "write it like 15m, 4h or 168h").Of("for",
			value, "more than 0s")
	}
	return d, nil
}

func pairOf(r *http.Request) deferred.Key {
	return deferred.Key{Projection: r.PostFormValue("projection"), CampaignID: r.PostFormValue("campaign")}
}

func requeuePair(
	ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request,
) (*admin.Outcome, string, error) {
	key := pairOf(r)
	o, err := a.Requeue(ctx, req, key)
	return o, fmt.Sprintf("Requeued %s in %s: a worker tries it now.", key.Projection, short(key.CampaignID)), err
}

func resolvePair(
	ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request,
) (*admin.Outcome, string, error) {
	key := pairOf(r)
	seq, err := number(r, "seq", 0)
	if err == nil {
		err = confirmed(r, fmt.Sprint(seq))
	}
	if err != nil {
		return nil, "", err
	}
	o, err := a.Resolve(ctx, req, key, seq)
	return o, fmt.Sprintf("Resolved: %s goes on in %s without event %s.", key.Projection, short(key.CampaignID),
		count(seq)), err
}

func unresolvePair(
	ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request,
) (*admin.Outcome, string, error) {
	key := pairOf(r)
	seq, err := number(r, "seq", 0)
	if err != nil {
		return nil, "", err
	}
	o, err := a.Unresolve(ctx, req, key, seq)
	return o, fmt.Sprintf("Taken back: %s applies %s anew, with event %s.", key.Projection, short(key.CampaignID),
		count(seq)), err
}

func replayCampaign(
	ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request,
) (*admin.Outcome, string, error) {
	from, err := number(r, "from", 0)
	if err != nil {
		return nil, "", err
	}
	replay := deferred.ReplayRequest{
		Group: r.PostFormValue("group"), Projection: r.PostFormValue("projection"),
		Campaigns: []string{r.PostFormValue("id")}, From: from,
	}
	o, err := a.ReplayCampaigns(ctx, req, replay)
	return o, "Replay begun: its projections catch up now, and are listed as rebuilding until they have.", err
}

func pauseTarget(
	ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request,
) (*admin.Outcome, string, error) {
	d, err := lasting(r)
	if err != nil {
		return nil, "", err
	}
	t := targetOf(r)
	o, err := a.Pause(ctx, req, t, d)
	return o, fmt.Sprintf("Paused %s%s.", t, untilWhen(d)), err
}

func resumeTarget(
	ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request,
) (*admin.Outcome, string, error) {
	t := targetOf(r)
	o, err := a.Resume(ctx, req, t)
	return o, fmt.Sprintf("Resumed %s.", t), err
}

func targetOf(r *http.Request) pause.Target {
	return pause.Target{
		Group: r.PostFormValue("group"), Projection: r.PostFormValue("projection"),
		CampaignID: r.PostFormValue("id"),
	}
}

func untilWhen(d time.Duration) string {
	if d == 0 {
		return " until somebody resumes it"
	}
	return " for " + span(d)
}

func publicationOf(r *http.Request) publications.Key {
	return publications.Key{Topic: r.FormValue("topic"), Publisher: r.FormValue("publisher")}
}

func pausePublisher(
	ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request,
) (*admin.Outcome, string, error) {
	d, err := lasting(r)
	if err != nil {
		return nil, "", err
	}
	o, err := a.PausePublisher(ctx, req, publicationOf(r), d)
	return o, fmt.Sprintf("Paused publisher %s%s.", publicationOf(r), untilWhen(d)), err
}

func resumePublisher(
	ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request,
) (*admin.Outcome, string, error) {
	o, err := a.ResumePublisher(ctx, req, publicationOf(r))
	return o, fmt.Sprintf("Resumed publisher %s.", publicationOf(r)), err
}

func resetPublisher(
	ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request,
) (*admin.Outcome, string, error) {
	to, _, err := resetOf(r)
	if err != nil {
		return nil, "", err
	}
	o, err := a.ResetPublisher(ctx, req, publicationOf(r), to)
	if err != nil {
		return nil, "", err
	}
	var done admin.Reset
	_ = json.Unmarshal(o.Detail, &done)
	return o, fmt.Sprintf("Publisher %s stands at position %s now. Sent again: %s. Never sent: %s.",
		publicationOf(r), count(done.To), plural(done.Sent, "event"), plural(done.Skipped, "event")), nil
}

func testSend(ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request) (*admin.Outcome, string, error) {
	o, err := a.TestSend(ctx, req, publicationOf(r))
	return o, fmt.Sprintf("The sink of %s has taken a test event.", publicationOf(r)), err
}

func parkedOf(r *http.Request) (publications.Key, string, int64, error) {
	seq, err := number(r, "seq", 0)
	return publicationOf(r), r.PostFormValue("campaign"), seq, err
}

func retryParked(
	ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request,
) (*admin.Outcome, string, error) {
	key, campaign, seq, err := parkedOf(r)
	if err != nil {
		return nil, "", err
	}
	o, err := a.RetryParked(ctx, req, key, campaign, seq)
	return o, fmt.Sprintf("Event %s of %s is sent again now.", count(seq), short(campaign)), err
}

func resolveParked(
	ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request,
) (*admin.Outcome, string, error) {
	key, campaign, seq, err := parkedOf(r)
	if err != nil {
		return nil, "", err
	}
	o, err := a.ResolveParked(ctx, req, key, campaign, seq)
	return o, fmt.Sprintf("Resolved: %s goes on in %s without event %s.", key, short(campaign), count(seq)), err
}

func startRebuild(
	ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request,
) (*admin.Outcome, string, error) {
	name := r.PostFormValue("projection")
	o, err := a.StartRebuild(ctx, req, name, projector.RebuildOptions{})
	return o, fmt.Sprintf("The rebuild of %s has been asked for; a worker with its code begins.", name), err
}

func swapRebuild(
	ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request,
) (*admin.Outcome, string, error) {
	name := r.PostFormValue("projection")
	allow, err := number(r, "allow", 0)
	if err != nil {
		return nil, "", err
	}
	o, err := a.SwapRebuild(ctx, req, name, projector.RebuildOptions{AllowFailed: &allow})
	return o, fmt.Sprintf("The swap of %s is tried again, with up to %s failed campaigns allowed.", name,
		count(allow)), err
}

func pauseRebuild(
	ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request,
) (*admin.Outcome, string, error) {
	d, err := lasting(r)
	if err != nil {
		return nil, "", err
	}
	o, err := a.PauseRebuild(ctx, req, r.PostFormValue("group"), r.PostFormValue("projection"), d)
	return o, fmt.Sprintf("The rebuild of %s waits%s.", r.PostFormValue("projection"), untilWhen(d)), err
}

func resumeRebuild(
	ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request,
) (*admin.Outcome, string, error) {
	o, err := a.ResumeRebuild(ctx, req, r.PostFormValue("group"), r.PostFormValue("projection"))
	return o, fmt.Sprintf("The rebuild of %s goes on.", r.PostFormValue("projection")), err
}

func abortRebuild(
	ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request,
) (*admin.Outcome, string, error) {
	name := r.PostFormValue("projection")
	o, err := a.AbortRebuild(ctx, req, name)
	return o, fmt.Sprintf("The rebuild of %s is aborted; nothing of it is left.", name), err
}

func rollBack(ctx context.Context, a *admin.Acts, req admin.Request, r *http.Request) (*admin.Outcome, string, error) {
	name := r.PostFormValue("projection")
	behind, err := number(r, "behind", 0)
	if err != nil {
		return nil, "", err
	}
	o, err := a.Rollback(ctx, req, name, projector.RollbackOptions{AllowBehind: behind})
	return o, fmt.Sprintf("A worker puts the tables of %s that were replaced in their place again.", name), err
}
