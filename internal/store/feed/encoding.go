package feed

import (
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// CheckEncoding returns an [*event.EncodingError] if the server has reported a client_encoding other than
// UTF8. It asks nothing of the server. conn may be nil.
func CheckEncoding(conn *pgx.Conn) error {
	if conn == nil || conn.PgConn() == nil {
		return nil
	}
	switch encoding := conn.PgConn().ParameterStatus("client_encoding"); encoding {
	case "", "UTF8", "UNICODE": // "": a pooler that reports nothing
		return nil
	default:
		return &event.EncodingError{Encoding: encoding}
	}
}

// CheckTimes returns an [*event.EncodingError] if pgx cannot read the times and intervals that the server
// sends as text, as far as the server has reported that. It asks nothing of the server.
func CheckTimes(conn *pgx.Conn) error {
	for setting, readable := range map[string]string{"DateStyle": "ISO", "IntervalStyle": "postgres"} {
		value := conn.PgConn().ParameterStatus(setting)
		if first, _, _ := strings.Cut(value, ","); value != "" && first != readable {
			return &event.EncodingError{Format: setting + " " + value}
		}
	}
	return nil
}
