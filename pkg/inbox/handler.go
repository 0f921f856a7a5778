package inbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/marks"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/webhook"
)

// WebhookConfig configures [Webhook].
type WebhookConfig struct {
	DB        *pgxpool.Pool    // required
	Consumer  string           // required: whose marks they are
	Secrets   []webhook.Secret // required: any of them may have signed
	Tolerance time.Duration    // for the timestamp; default webhook.DefaultTolerance
	TTL       time.Duration    // of marks; default DefaultTTL
	BodyBytes int64            // larger bodies are refused with 413; default 2 MiB, more than an event has by default
	Logger    *slog.Logger     // told of what is answered with 5xx; default none
}

// Delivery is an event that has arrived for the first time.
type Delivery struct {
	CampaignID string // with EventID it tells the event from all others; empty: the sender's webhook-id is a UUID alone
	EventID    uuid.UUID
	At         time.Time // of the attempt
	Header     http.Header
	Body       []byte
}

// correlationBytes bounds the correlation_id that is taken from a header.
const correlationBytes = 300

// cause is the event as far as it can be the cause of others. Headers are not signed, so nothing but the correlation_id
// comes from them.
func (d Delivery) cause() journal.Event {
	cause := journal.Event{CampaignID: d.CampaignID, ID: d.EventID}
	for _, name := range []string{"Tidemark-Correlation-Id", "Ce-Correlationid"} {
		id, err := url.PathUnescape(d.Header.Get(name))
		if id == "" || err != nil || len(id) > correlationBytes || strings.ContainsFunc(id, notPrinted) {
			continue
		}
		cause.Metadata, _ = json.Marshal(map[string]string{"correlation_id": id})
	}
	return cause
}

// notPrinted says that a correlation_id with r is none: publishers send printable ASCII.
func notPrinted(r rune) bool { return r < ' ' || r > '~' }

// Refuse marks an error of a handler as the event's own: it is answered with 422, and the sender
// does not try it again, but parks it. Nothing of it is kept.
func Refuse(err error) error { return &refusedError{err} }

type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

const defaultBodyBytes = 2 << 20

// Webhook receives signed webhooks. For each it verifies the signature, begins a transaction, marks
// the event in it, calls handle if it has not come before, commits, and only then answers with 204:
// effects that handle has in tx happen exactly once. handle must not end tx. What it appends with its
// context has the event as its cause ([journal.WithCause]), and the sender's correlation_id.
//
// An error of handle takes back all of it and is answered with 500, or, marked with [Refuse], with
// 422. What does not verify is answered with 401, what is no POST with 405, an id that is neither a
// [journal.Event.Identity] nor a UUID with 400, what is too large with 413, a database that fails
// with 503. Answers say no more than the status.
//
// Give the http.Server timeouts: the handler reads the whole body before it verifies.
func Webhook(cfg WebhookConfig, handle func(ctx context.Context, tx pgx.Tx, d Delivery) error) (http.Handler, error) {
	cfg.TTL = cmp.Or(cfg.TTL, DefaultTTL)
	cfg.BodyBytes = cmp.Or(cfg.BodyBytes, defaultBodyBytes)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	_, err := check(cfg.Consumer, "any", uuid.Max, []Option{TTL(cfg.TTL)})
	errs := []error{err}
	if cfg.DB == nil || handle == nil {
		errs = append(errs, errors.New("DB and the function that handles events are required"))
	}
	if len(cfg.Secrets) == 0 {
		errs = append(errs, errors.New("there are no secrets to verify with: read them with webhook.ParseSecret"))
	}
	for i, s := range cfg.Secrets {
		if s.IsZero() {
			errs = append(errs, fmt.Errorf("secret %d is empty: read it with webhook.ParseSecret", i))
		}
	}
	if cfg.Tolerance < 0 || cfg.BodyBytes < 0 {
		errs = append(errs, fmt.Errorf("Tolerance is %s and BodyBytes %d, neither may be negative", cfg.Tolerance,
			cfg.BodyBytes))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("receive webhooks: %w", err)
	}
	return &receiver{cfg, handle}, nil
}

type receiver struct {
	cfg    WebhookConfig
	handle func(context.Context, pgx.Tx, Delivery) error
}

// ServeHTTP receives one webhook.
func (h *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, err := h.receive(w, r)
	if status >= 500 {
		h.cfg.Logger.ErrorContext(r.Context(), "a webhook was not processed", "consumer", h.cfg.Consumer, "status", status,
			"error", err)
	}
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	w.WriteHeader(status)
}

func (h *receiver) receive(w http.ResponseWriter, r *http.Request) (status int, err error) {
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.cfg.BodyBytes))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge, nil
	case err != nil:
		return http.StatusRequestTimeout, err
	}
	sent, err := webhook.Verify(r.Header, body, h.cfg.Tolerance, h.cfg.Secrets...)
	if err != nil {
		return http.StatusUnauthorized, err
	}
	campaign, id, err := journal.ParseIdentity(sent.ID)
	if err != nil || campaign != "" && marks.Check(h.cfg.Consumer, campaign, id) != nil {
		return http.StatusBadRequest, nil
	}
	var handling error
	err = pgx.BeginFunc(r.Context(), h.cfg.DB, func(tx pgx.Tx) error {
		first, err := mark(r.Context(), tx, h.cfg.Consumer, campaign, id, h.cfg.TTL)
		if err != nil {
			return err
		}
		if !first {
			return nil
		}
		d := Delivery{CampaignID: campaign, EventID: id, At: sent.At, Header: r.Header, Body: body}
		handling = h.handle(journal.WithCause(r.Context(), d.cause()), tx, d)
		return handling
	})
	var refused *refusedError
	switch {
	case err == nil:
		return http.StatusNoContent, nil
	case errors.As(handling, &refused):
		return http.StatusUnprocessableEntity, err
	case handling != nil:
		return http.StatusInternalServerError, err
	}
	return http.StatusServiceUnavailable, err
}
