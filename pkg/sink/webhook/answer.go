package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

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
