package projector

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	messageBytes = 4 << 10
	stackBytes   = 16 << 10
)

// IsInfrastructure says whether an error says something of the database or the network and nothing of the event: it costs the event no attempt. By SQLSTATE: connection (08),
// transaction rollback such as deadlock (40), resources (53), lock not available (55P03), operator intervention such as shutdown (57), system (58), read-only
// server (25006). Of other errors: broken connections, cancelled contexts.
func IsInfrastructure(err error) bool {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		switch pgErr.Code[:2] {
		case "08", "40", "53", "57", "58":
			return true
		}
		return pgErr.Code == "55P03" || pgErr.Code == "25006" || pgErr.Code == "25P03"
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err)
}

// describe returns what is kept of a failure: its class (a SQLSTATE, "panic" or "error"), its message and a panic's stack, as valid text of bounded
// size. Of a database error only the message is kept: details quote rows.
func describe(err error) (class, message string, stack *string) {
	class, message = "error", err.Error()
	var pgErr *pgconn.PgError
	var panicked *PanicError
	switch {
	case errors.As(err, &pgErr):
		class, message = pgErr.Code, pgErr.Message
	case errors.As(err, &panicked):
		class = "panic"
		s := cut(panicked.Stack, stackBytes)
		stack = &s
	}
	return class, cut(message, messageBytes), stack
}

// cut makes text valid for Postgres and no longer than limit bytes.
func cut(s string, limit int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
