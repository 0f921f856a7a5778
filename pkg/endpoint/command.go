package endpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// The headers of requests and answers.
const (
	IDHeader    = "Idempotency-Key" // of a command: a UUID that the client makes, and repeats with the request
	TokenHeader = "Tidemark-Token"  // of a command's answer, and of a read that is to show its effect
)

// mostBytes is the largest body of a command.
const mostBytes = 1 << 20

// Command returns a handler of requests that take effect once. do gets the command with its ID and the body as its
// Content, and the body decoded into B (encoding/json; an empty one is the zero B). It sets the CampaignID and calls
// [journal.Journal.Do]. A body has 1 MiB at most.
//
// The answers have no body, but for errors a line of text:
//
//   - 201: the command took effect, now or before. The header Tidemark-Token has the token of its events.
//   - 204: do appended nothing and returned no error
//   - 400: Idempotency-Key is no UUID, or the body does not fit B
//   - 409: the error of do is one of refusals, by errors.Is. The text is the error's
//   - 410: the campaign is archived
//   - 413: the body is too large
//   - 422: the ID was used for another command, or an event is refused
//   - 503: any other error: the outcome is unknown, or others kept coming first. The client sends the same again.
//     The error is logged without values of events, unless the client has gone
//
// A nil logger discards.
func Command[B any](
	logger *slog.Logger, do func(r *http.Request, c journal.Command, body B) (journal.Outcome, error), refusals ...error,
) http.Handler {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	logger = redact.Logger(logger)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, body, status, err := read[B](w, r)
		if err != nil {
			http.Error(w, err.Error(), status)
			return
		}
		out, err := do(r, c, body)
		switch status = statusOf(err, refusals); {
		case status == http.StatusServiceUnavailable:
			if r.Context().Err() == nil {
				logger.ErrorContext(r.Context(), "a command failed, its client is to send it again",
					"event_id", c.ID, "path", r.URL.Path, "error", err)
			}
			http.Error(w, "try again with the same "+IDHeader, status)
		case err != nil:
			http.Error(w, err.Error(), status)
		case out.Token() == "":
			w.WriteHeader(http.StatusNoContent)
		default:
			w.Header().Set(TokenHeader, out.Token())
			w.WriteHeader(http.StatusCreated)
		}
	})
}

// read reads a command.
func read[B any](w http.ResponseWriter, r *http.Request) (c journal.Command, body B, status int, err error) {
	if c.ID, err = uuid.Parse(r.Header.Get(IDHeader)); err != nil {
		return c, body, http.StatusBadRequest, errors.New(IDHeader + " must be a UUID")
	}
	if c.Content, err = io.ReadAll(http.MaxBytesReader(w, r.Body, mostBytes)); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return c, body, http.StatusRequestEntityTooLarge, err
		}
		return c, body, http.StatusBadRequest, err
	}
	if len(bytes.TrimSpace(c.Content)) > 0 {
		err = json.Unmarshal(c.Content, &body)
	}
	return c, body, http.StatusBadRequest, err
}

// statusOf returns the status of an error of a command.
func statusOf(err error, refusals []error) int {
	for _, refusal := range refusals {
		if errors.Is(err, refusal) {
			return http.StatusConflict
		}
	}
	_, invalid := errors.AsType[*journal.InvalidEventError](err)
	switch {
	case err == nil:
		return http.StatusCreated
	case errors.Is(err, event.ErrArchived):
		return http.StatusGone
	case invalid, errors.Is(err, journal.ErrCommandReused):
		return http.StatusUnprocessableEntity
	}
	return http.StatusServiceUnavailable
}
