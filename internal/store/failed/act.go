package failed

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Act says who does something, and why. It is kept in tidemark.failure_log.
type Act struct {
	By     string // required, up to 256 bytes
	Reason string // required by [Resolve], [ResolvePlaces] and [Unresolve], up to 4 KiB
}

const (
	actorBytes  = 256
	reasonBytes = 4 << 10
)

// validate says what is wrong with an act.
func (a Act) validate(reasoned bool) error {
	var errs []error
	if strings.TrimSpace(a.By) == "" {
		errs = append(errs, errors.New("By is missing: say who acts"))
	}
	if reasoned && strings.TrimSpace(a.Reason) == "" {
		errs = append(errs, errors.New("Reason is missing: say why the event is left out, or is not any more"))
	}
	errs = append(errs, text("By", a.By, actorBytes), text("Reason", a.Reason, reasonBytes))
	return errors.Join(errs...)
}

// texts says what keeps fields that something is looked for by from being sent to Postgres.
func texts(values ...string) (errs []error) {
	for _, value := range values {
		errs = append(errs, text("a field", value, 4<<10))
	}
	return errs
}

// text says what keeps a field from being sent to Postgres.
func text(field, value string, limit int) error {
	switch {
	case len(value) > limit:
		return fmt.Errorf("%s has %d bytes, the limit is %d: shorten it", field, len(value), limit)
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return fmt.Errorf("%s is %q: use UTF-8 without NUL", field, value)
	}
	return nil
}
