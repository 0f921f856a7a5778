package inbox_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/inbox"
	"github.com/tidemark-go/tidemark/pkg/webhook"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func receive(
	t *testing.T, pool *pgxpool.Pool, secret webhook.Secret, handle func(context.Context, pgx.Tx, inbox.Delivery) error,
) http.Handler {
	t.Helper()
	h, err := inbox.Webhook(inbox.WebhookConfig{
		DB: pool, Consumer: "a", Secrets: []webhook.Secret{secret},
		BodyBytes: 100,
	}, handle)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// request returns a signed request.
func request(secret webhook.Secret, id, body string) *http.Request {
	return requestAt(time.Now(), secret, id, body)
}

func requestAt(now time.Time, secret webhook.Secret, id, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	webhook.Sign(r.Header, id, now, []byte(body), secret)
	return r
}

func status(h http.Handler, r *http.Request) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestAWebhookHasEffectsOnce(t *testing.T) {
	t.Parallel()
	pool, secret, id := pgtest.New(t), webhook.NewSecret(), uuid.NewString()
	exec(t, pool, "CREATE TABLE effects (body text)")
	var fails error
	h := receive(t, pool, secret, func(ctx context.Context, tx pgx.Tx, d inbox.Delivery) error {
		if d.EventID.String() != id || time.Since(d.At) > time.Minute {
			t.Errorf("it came as %s, of %s", d.EventID, d.At)
		}
		if _, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", string(d.Body)); err != nil {
			return err
		}
		return fails
	})
	for _, c := range []struct {
		fails         error
		want, effects int
	}{
		{errNo, http.StatusInternalServerError, 0},
		{inbox.Refuse(errNo), http.StatusUnprocessableEntity, 0},
		{nil, http.StatusNoContent, 1},
		{nil, http.StatusNoContent, 1},
		{errNo, http.StatusNoContent, 1}, // the handler does not run again
	} {
		fails = c.fails
		if got := status(h, request(secret, id, `{}`)); got != c.want {
			t.Errorf("handled with %v: %d, want %d", c.fails, got, c.want)
		}
		if n := count(t, pool, "effects"); n != c.effects {
			t.Errorf("handled with %v: %d effects, want %d", c.fails, n, c.effects)
		}
	}
}

func TestAWebhookThatComesTwiceAtOnceHasEffectsOnce(t *testing.T) {
	t.Parallel()
	pool, secret, id := pgtest.New(t), webhook.NewSecret(), uuid.NewString()
	exec(t, pool, "CREATE TABLE effects (n int)")
	h := receive(t, pool, secret, func(ctx context.Context, tx pgx.Tx, _ inbox.Delivery) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES (1)")
		return err
	})
	var requests sync.WaitGroup
	for range 8 {
		requests.Go(func() {
			if got := status(h, request(secret, id, `{}`)); got != http.StatusNoContent {
				t.Errorf("status %d", got)
			}
		})
	}
	requests.Wait()
	if n := count(t, pool, "effects"); n != 1 {
		t.Errorf("there are %d effects", n)
	}
}

func TestWhatDoesNotVerifyIsNotHandled(t *testing.T) {
	t.Parallel()
	pool, secret := pgtest.New(t), webhook.NewSecret()
	h := receive(t, pool, secret, func(context.Context, pgx.Tx, inbox.Delivery) error {
		t.Error("it is handled")
		return nil
	})
	get := request(secret, uuid.NewString(), `{}`)
	get.Method = http.MethodGet
	unsigned := request(secret, uuid.NewString(), `{}`)
	unsigned.Header.Del("webhook-signature")
	other := request(secret, uuid.NewString(), `{}`)
	other.Header.Set("webhook-id", uuid.NewString())
	for want, requests := range map[int][]*http.Request{
		http.StatusMethodNotAllowed: {get},
		http.StatusUnauthorized:     {unsigned, other, request(webhook.NewSecret(), uuid.NewString(), `{}`)},
		http.StatusBadRequest: {
			request(secret, "msg_1", `{}`), request(secret, uuid.NewString()+"/", `{}`),
			request(secret, uuid.NewString()+"/a b", `{}`), request(secret, uuid.NewString()+"/%00", `{}`),
			request(secret, uuid.Nil.String(), `{}`), request(secret, "urn:uuid:"+uuid.NewString(), `{}`),
		},
		http.StatusRequestEntityTooLarge: {request(secret, uuid.NewString(), strings.Repeat(" ", 101))},
	} {
		for i, r := range requests {
			if got := status(h, r); got != want {
				t.Errorf("request %d: %d, want %d", i, got, want)
			}
		}
	}
	if n := count(t, pool, "tidemark.inbox"); n != 0 {
		t.Errorf("%d events are marked", n)
	}
}

func TestADatabaseThatFailsIsNotTheEventsFault(t *testing.T) {
	t.Parallel()
	pool, secret := pgtest.New(t), webhook.NewSecret()
	exec(t, pool, "ALTER TABLE tidemark.inbox RENAME TO gone")
	h := receive(t, pool, secret, func(context.Context, pgx.Tx, inbox.Delivery) error { return nil })
	if got := status(h, request(secret, uuid.NewString(), `{}`)); got != http.StatusServiceUnavailable {
		t.Errorf("status %d", got)
	}
}

func TestBadSettingsOfAReceiverAreNamedTogether(t *testing.T) {
	t.Parallel()
	_, err := inbox.Webhook(inbox.WebhookConfig{Tolerance: -1, TTL: -1}, nil)
	for _, want := range []string{"has no name", "DB and the function", "no secrets", "Tolerance is -1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if _, err := inbox.Webhook(inbox.WebhookConfig{Secrets: make([]webhook.Secret, 1)}, nil); err == nil ||
		!strings.Contains(err.Error(), "secret 0 is empty") {
		t.Errorf("got %v", err)
	}
	if errors.Is(inbox.Refuse(errNo), errNo) == false {
		t.Error("a refusal hides its cause")
	}
}

func TestAReceiverKeepsToItsSettings(t *testing.T) {
	t.Parallel()
	pool, old, current := pgtest.New(t), webhook.NewSecret(), webhook.NewSecret()
	h, err := inbox.Webhook(inbox.WebhookConfig{
		DB: pool, Consumer: "a", Secrets: []webhook.Secret{old, current},
		Tolerance: time.Hour, TTL: 2 * time.Hour,
	},
		func(context.Context, pgx.Tx, inbox.Delivery) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ago    time.Duration
		secret webhook.Secret
		want   int
	}{
		"the old secret":       {0, old, http.StatusNoContent},
		"the current one":      {0, current, http.StatusNoContent},
		"within the tolerance": {30 * time.Minute, current, http.StatusNoContent},
		"beyond it":            {2 * time.Hour, current, http.StatusUnauthorized},
		"ahead of it":          {-2 * time.Hour, current, http.StatusUnauthorized},
	} {
		if got := status(h, requestAt(time.Now().Add(-c.ago), c.secret, uuid.NewString(), `{}`)); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if n := count(t, pool,
		"tidemark.inbox WHERE expires_at BETWEEN now() + interval '1 hour' AND now() + interval '2 hours'"); n != 3 {
		t.Errorf("%d of 3 marks last two hours", n)
	}
	usual := receive(t, pool, current, func(context.Context, pgx.Tx, inbox.Delivery) error { return nil })
	if got := status(usual, requestAt(time.Now().Add(-30*time.Minute), current, uuid.NewString(),
		`{}`)); got != http.StatusUnauthorized {
		t.Errorf("half an hour old, by default: %d", got)
	}
}
