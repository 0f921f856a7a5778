package redact

import (
	"errors"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// Hidden is an error that may quote values of an event that the caller does not know. Redacted
// returns its text without them.
type Hidden interface {
	error
	Redacted() string
}

// Error returns the text of err without the values of the given events, as valid UTF-8 without NUL,
// up to 4 KiB. With events, it keeps the rest of a projection's or a sink's text. Without events, it
// replaces each [Hidden] error in the chain, and each message that a function in the database raised,
// by safe text.
func Error(err error, about ...*event.Event) string {
	message := err.Error()
	each(err, func(node error) {
		switch e := node.(type) { //nolint:errorlint // each node of the chain is looked at by itself
		case *pgconn.PgError:
			shown := Postgres(e)
			if len(about) == 0 && raised(e) {
				shown = gone
			}
			message = swap(message, e.Message, shown)
		case Hidden:
			if len(about) == 0 {
				message = swap(message, e.Error(), e.Redacted())
			}
		}
	})
	return Text(message, about...)
}

// Wrap returns an error that has the text of [Error] and unwraps to err. It returns nil for nil.
func Wrap(err error, about ...*event.Event) error {
	if err == nil {
		return nil
	}
	return &wrapped{Error(err, about...), err}
}

type wrapped struct {
	text string
	err  error
}

func (w *wrapped) Error() string { return w.text }
func (w *wrapped) Unwrap() error { return w.err }

// each calls look with err and all errors that it wraps, the outermost first.
func each(err error, look func(error)) {
	look(err)
	switch e := err.(type) { //nolint:errorlint // this walks the chain
	case *wrapped: // its text is clean already
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			each(inner, look)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			each(inner, look)
		}
	}
}

func swap(message, old, by string) string {
	if old == "" || old == by {
		return message
	}
	return strings.ReplaceAll(message, old, by)
}

// Safe returns what is safe to show of an error without its event: the message of Postgres without
// data, the redacted text of a [Hidden] error, or only that there is an error.
func Safe(err error) string {
	var hidden Hidden
	var server *pgconn.PgError
	switch {
	case errors.As(err, &hidden):
		return hidden.Redacted()
	case errors.As(err, &server) && raised(server):
		return gone + " (SQLSTATE " + server.Code + ")"
	case errors.As(err, &server):
		return Postgres(server)
	}
	return gone + " (an error of its own)"
}

// raised reports whether a function in the database wrote the message, which may contain anything.
// Codes of Tidemark's own functions start with TM and are safe.
func raised(err *pgconn.PgError) bool {
	return err.Routine == "exec_stmt_raise" && !strings.HasPrefix(err.Code, "TM")
}

// SQLState returns the code of the error of Postgres in the chain of err, or "".
func SQLState(err error) string {
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return server.Code
	}
	return ""
}

// quoted matches everything from the first to the last quote.
var quoted = regexp.MustCompile(`(?s)".*"`)

// Postgres returns a message of Postgres without quoted data. Data exceptions (class 22) and syntax
// errors in generated statements (42601) quote values and do not escape quotes inside them. Other
// errors quote names. The details, which quote rows, are left out.
func Postgres(err *pgconn.PgError) string {
	if strings.HasPrefix(err.Code, "22") || err.Code == "42601" {
		return quoted.ReplaceAllString(err.Message, `"…"`)
	}
	return err.Message
}

// libraries are the patterns in which encoding/json, strconv, time and pgx quote a value that they
// could not read, and their replacements. text is a quick test for the pattern.
var libraries = []struct { //nolint:gochecknoglobals // constants
	text    string
	pattern *regexp.Regexp
	by      string
}{
	{"json:", regexp.MustCompile(`(json: cannot unmarshal number )\S+`), `${1}…`},
	{"strconv.", regexp.MustCompile(`(strconv\.\w+: parsing )"(?:[^"\\]|\\.)*"`), `${1}"…"`},
	{
		"parsing time",
		regexp.MustCompile(
			`(parsing time )"(?:[^"\\]|\\.)*"( as "[^"]*": )?(cannot parse )?("(?:[^"\\]|\\.)*"( as ))?`,
		),
		`${1}"…"${2}${3}${5}`,
	},
	{"unable to encode", regexp.MustCompile(`(?s)(unable to encode ).*?( into (?:binary|text) format)`), `${1}…${2}`},
}

func quotations(message string) string {
	for _, l := range libraries {
		if strings.Contains(message, l.text) {
			message = l.pattern.ReplaceAllString(message, l.by)
		}
	}
	return message
}
