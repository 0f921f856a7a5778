package webhook

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// refusal is the answer to one event: it was not taken, and that is the event's doing.
type refusal struct {
	err       error
	permanent bool
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// suspect is a failure that may be the event's doing or the endpoint's.
type suspect struct{ err error }

func (s *suspect) Error() string { return s.err.Error() }
func (s *suspect) Unwrap() error { return s.err }

// judge says what an answer means for the event, as post does.
func (s *sink) judge(answer *http.Response, said []byte) error {
	status := answer.StatusCode
	if status >= 200 && status <= 299 {
		return nil
	}
	err := fmt.Errorf("%s answers %s%s", s.to.Host, name(status), quoted(said))
	after, asked := retryAfter(answer.Header.Get("Retry-After"), time.Now(), s.cfg.RetryAfterMax)
	switch {
	case status < 200:
		return err
	case status < 400:
		return fmt.Errorf("%w%s: redirects are not followed, set the url to where the endpoint is", err,
			target(answer.Header.Get("Location")))
	}
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return &refusal{err, true}
	case http.StatusRequestEntityTooLarge:
		return &refusal{err, !asked} // with Retry-After it is too large for now
	case http.StatusGone:
		return publisher.Pause(err)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if asked {
			return publisher.RetryAfter(err, after)
		}
		if status == http.StatusTooManyRequests {
			return err
		}
		return &suspect{err}
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusProxyAuthRequired,
		http.StatusLengthRequired, http.StatusUnsupportedMediaType, http.StatusMisdirectedRequest, http.StatusUpgradeRequired:
		return err // endpoint, secret or format have to be mended: the same would happen to every event
	case http.StatusRequestTimeout, http.StatusTooEarly:
		return &suspect{err}
	}
	if status < 500 {
		return &refusal{err, false}
	}
	return &suspect{err}
}

// name writes a status: 404 Not Found. What the server calls it does not matter.
func name(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// quoted shows the beginning of a body, on one line.
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

// target says where a redirect leads, without what may be secret in it.
func target(location string) string {
	u, err := url.Parse(location)
	if err != nil || u.Host == "" {
		return ""
	}
	return fmt.Sprintf(" to %.100q", u.Scheme+"://"+u.Host)
}

// retryAfter reads the header Retry-After, seconds or a date, bounded by most. It tells whether there
// is a wait to be kept.
func retryAfter(text string, now time.Time, most time.Duration) (wait time.Duration, asked bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, false
	}
	if strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseInt(text, 10, 32)
		if err != nil { // more than there is time for
			return most, true
		}
		return min(time.Duration(seconds)*time.Second, most), seconds > 0
	}
	date, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	wait = date.Sub(now)
	return min(wait, most), wait > 0
}
