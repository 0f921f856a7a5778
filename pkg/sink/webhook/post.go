package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/webhook"
)

// post sends an event once. It returns nil, a *refusal, or an error of the endpoint as a whole.
func (s *sink) post(outer context.Context, e *publisher.Event) error {
	ctx, cancel := context.WithTimeout(outer, s.cfg.Timeout)
	defer cancel()
	var connected atomic.Bool // including TLS: an earlier failure is no event's fault
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		connected.Store(true)
	}})
	request, err := s.request(ctx, e)
	if err != nil {
		return &refusal{err: err, permanent: true}
	}
	answer, err := s.transport.RoundTrip(request) // not a Client, which follows redirects and keeps cookies
	if err != nil {
		switch {
		case outer.Err() != nil:
			return context.Cause(outer)
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			err = fmt.Errorf("%s has not answered within %s: %w", s.to.Host, s.cfg.Timeout, err)
		default:
			err = fmt.Errorf("%s: %w", s.to.Host, err)
		}
		if connected.Load() {
			return &refusal{err: err, suspect: true}
		}
		return err
	}
	if answer.StatusCode == http.StatusSwitchingProtocols { // the body is the connection, which no context ends
		_ = answer.Body.Close()
		return s.judge(answer, nil)
	}
	return s.judge(answer, drain(answer.Body, cancel))
}

func (s *sink) request(ctx context.Context, e *publisher.Event) (*http.Request, error) {
	message := s.cfg.Encoder.Encode(e)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.to.String(), bytes.NewReader(message.Body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "Tidemark")
	if u := s.to.User; u != nil {
		password, _ := u.Password()
		r.SetBasicAuth(u.Username(), password)
	}
	for name, value := range s.cfg.Headers {
		r.Header.Set(name, value)
	}
	for _, a := range message.Attributes {
		setAttribute(r.Header, a)
	}
	r.Header.Set("Content-Type", message.ContentType)
	webhook.Sign(r.Header, e.Identity(), time.Now(), message.Body, s.cfg.Secrets...)
	return r, nil
}

// setAttribute sets an attribute as a header. Those of the envelope become Tidemark-Campaign-Id and
// so on, because many servers drop headers with underscores.
func setAttribute(h http.Header, a publisher.Attribute) {
	switch {
	case a.Name == "traceparent" || a.Name == "tracestate": // ASCII, in their own format
		h.Set(a.Name, a.Value)
	case strings.HasPrefix(a.Name, "ce-"):
		h.Set(a.Name, text.EscapeHeader(a.Value))
	default:
		h.Set("Tidemark-"+strings.ReplaceAll(a.Name, "_", "-"), text.EscapeHeader(a.Value))
	}
}

// saidBytes limits how much of a response's body is repeated in an error.
const saidBytes = 200

// drain reads a response's body while it is small and quick, closes it, and returns its start.
func drain(body io.ReadCloser, cancel context.CancelFunc) []byte {
	timer := time.AfterFunc(answerTime, cancel)
	defer timer.Stop()
	said, err := io.ReadAll(io.LimitReader(body, saidBytes))
	if err == nil {
		_, _ = io.CopyN(io.Discard, body, answerBytes) // errors in the rest do not matter
	}
	_ = body.Close()
	return said
}

// refusal is the response to an event that was not accepted because of the event itself.
type refusal struct {
	err       error
	permanent bool
	suspect   bool // it may be the endpoint's fault
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// judge returns the error for a response, as post does.
func (s *sink) judge(answer *http.Response, said []byte) error {
	status := answer.StatusCode
	if status >= 200 && status <= 299 {
		return nil
	}
	err := fmt.Errorf("%s answers %s%s", s.to.Host, name(status), quoted(said))
	after := retryAfter(answer.Header.Get("Retry-After"), time.Now())
	switch {
	case status < 200:
		return err
	case status < 400:
		return fmt.Errorf("%w%s: redirects are not followed, set the url to where the endpoint is", err,
			target(answer.Header.Get("Location")))
	}
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return &refusal{err: err, permanent: true}
	case http.StatusRequestEntityTooLarge:
		return &refusal{err: err, permanent: after == 0} // with Retry-After it is too large only for now
	case http.StatusGone:
		return publisher.Pause(err)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if after > 0 {
			return publisher.RetryAfter(err, after)
		}
		if status == http.StatusTooManyRequests {
			return err
		}
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusProxyAuthRequired,
		http.StatusLengthRequired, http.StatusUnsupportedMediaType, http.StatusMisdirectedRequest, http.StatusUpgradeRequired:
		return err // endpoint, secret or format must be fixed: every event would fail the same way
	}
	suspect := status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooEarly
	return &refusal{err: err, suspect: suspect}
}

// name formats a status: 404 Not Found. The server's own text is ignored.
func name(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// quoted returns the start of a body, on one line.
func quoted(said []byte) string {
	text := strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, string(said))), " ")
	if text == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", text)
}

// target returns where a redirect leads, without parts that may be secret.
func target(location string) string {
	u, err := url.Parse(location)
	if err != nil || u.Host == "" {
		return ""
	}
	return fmt.Sprintf(" to %.100q", u.Scheme+"://"+u.Host)
}

// retryAfter parses the header Retry-After, seconds or a date; 0: no wait. The relay limits it.
func retryAfter(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(date.Sub(now), 0)
	}
	return 0
}
