package redact

import (
	"errors"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Hidden is an error that may quote values of an event that only its maker knows. Redacted is its
// text without them.
type Hidden interface {
	error
	Redacted() string
}

// Error answers the text of err without values of the events that it is about, valid UTF-8 without
// NUL, and of at most 4 KiB. With events it keeps what else a projection or a sink says; without
// events each [Hidden] error in the chain, and each text that a function in the database raised, is
// replaced by what is safe.
func Error(err error, about ...*journal.Event) string {
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

// Wrap answers an error with the text of [Error] that unwraps to err; nil for nil.
func Wrap(err error, about ...*journal.Event) error {
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

// each calls look with an error and with all that it wraps, the outermost first.
func each(err error, look func(error)) {
	look(err)
	switch e := err.(type) { //nolint:errorlint // this walks the chain
	case *wrapped: // its text is clean, whatever it wraps
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

// Safe answers what can be said of an error without knowing its event: what Postgres says without
// data, what a [Hidden] error shows, or else nothing but that there is one.
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

// raised says whether a function in the database has written the message, which may hold anything.
// The codes of our own functions begin with TM.
func raised(err *pgconn.PgError) bool {
	return err.Routine == "exec_stmt_raise" && !strings.HasPrefix(err.Code, "TM")
}

// quoted matches all that lies between the first and the last quote.
var quoted = regexp.MustCompile(`(?s)".*"`)

// Postgres is a message of Postgres without what it quotes of the data. Data exceptions (22) and
// syntax errors in statements that were put together (42601) quote values, with any quotes inside
// them as they are; others quote names. The details, which quote rows, are no part of it.
func Postgres(err *pgconn.PgError) string {
	if strings.HasPrefix(err.Code, "22") || err.Code == "42601" {
		return quoted.ReplaceAllString(err.Message, `"…"`)
	}
	return err.Message
}

// libraries are what encoding/json, strconv, time and pgx quote of the value that they could not
// read, and what takes its place. A message without the text has none.
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
