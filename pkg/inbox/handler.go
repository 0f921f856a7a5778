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

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/marks"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/webhook"
)

// WebhookConfig configures [Webhook].
type WebhookConfig struct {
	DB        *pgxpool.Pool    // required
	Consumer  string           // required: the owner of the marks
	Secrets   []webhook.Secret // required: any of them may have signed
	Tolerance time.Duration    // for the timestamp; default webhook.DefaultTolerance
	TTL       time.Duration    // of marks; default DefaultTTL
	BodyBytes int64            // larger bodies get 413; default 2 MiB, more than an event has by default
	Logger    *slog.Logger     // logs 5xx responses; default none
}

// Delivery is an event that arrives for the first time.
type Delivery struct {
	CampaignID string // with EventID it identifies the event; empty: the sender's webhook-id is a UUID alone
	EventID    uuid.UUID
	At         time.Time // of the attempt
	Header     http.Header
	Body       []byte
}

// correlationBytes limits a correlation_id from a header.
const correlationBytes = 300

// cause returns the event as a cause. Headers are not signed: only correlation_id comes from them.
func (d Delivery) cause() event.Event {
	cause := event.Event{CampaignID: d.CampaignID, ID: d.EventID}
	for _, name := range []string{"Tidemark-Correlation-Id", "Ce-Correlationid"} {
		id, err := url.PathUnescape(d.Header.Get(name))
		if id == "" || err != nil || len(id) > correlationBytes || strings.ContainsFunc(id, notPrinted) {
			continue
		}
		cause.Metadata, _ = json.Marshal(map[string]string{"correlation_id": id})
	}
	return cause
}

// notPrinted reports whether r is outside printable ASCII, which publishers send.
func notPrinted(r rune) bool { return r < ' ' || r > '~' }

// Refuse marks a handler's error as permanent. The response is 422, so the sender parks the event
// and does not retry it. Nothing is kept.
func Refuse(err error) error { return &refusedError{err} }

type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

const defaultBodyBytes = 2 << 20

// Webhook receives signed webhooks. It verifies the signature, begins a transaction, marks the
// event, calls handle if it is new, commits, and responds with 204. So effects of handle in tx
// happen exactly once. handle must not end tx. Events appended with its context have the event as
// their cause ([journal.WithCause]) and the sender's correlation_id.
//
// An error of handle rolls back and responds with 500, or 422 if marked with [Refuse]. Other
// responses, all without a body: 401 if verification fails, 405 unless POST, 400 for an id that is
// neither a [event.Event.Identity] nor a UUID, 413 if too large, 408 if the body cannot be read,
// 503 if the database fails.
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
	switch _, large := errors.AsType[*http.MaxBytesError](err); {
	case large:
		return http.StatusRequestEntityTooLarge, nil
	case err != nil:
		return http.StatusRequestTimeout, err
	}
	sent, err := webhook.Verify(r.Header, body, h.cfg.Tolerance, h.cfg.Secrets...)
	if err != nil {
		return http.StatusUnauthorized, err
	}
	campaign, id, err := event.ParseIdentity(sent.ID)
	if err != nil || campaign != "" && marks.Check(h.cfg.Consumer, campaign, id) != nil {
		return http.StatusBadRequest, nil
	}
	var handling error
	err = pgx.BeginFunc(r.Context(), h.cfg.DB, func(tx pgx.Tx) error {
		first, err := mark(r.Context(), tx, h.cfg.Consumer, campaign, id, h.cfg.TTL)
		if err != nil || !first {
			return err
		}
		d := Delivery{CampaignID: campaign, EventID: id, At: sent.At, Header: r.Header, Body: body}
		handling = h.handle(journal.WithCause(r.Context(), d.cause()), tx, d)
		return handling
	})
	switch _, refused := errors.AsType[*refusedError](handling); {
	case err == nil:
		return http.StatusNoContent, nil
	case refused:
		return http.StatusUnprocessableEntity, err
	case handling != nil:
		return http.StatusInternalServerError, err
	}
	return http.StatusServiceUnavailable, err
}
