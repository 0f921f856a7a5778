package feed

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// EncodingError is returned for a connection on which Postgres converts text from and to another
// encoding than UTF8, which changes text without an error or refuses it, or sends times in a format
// that pgx cannot read.
type EncodingError struct {
	Encoding string // the connection's client_encoding; "": UTF8
	Format   string // setting and value, such as "DateStyle SQL, DMY", if pgx gets results as text and cannot read it
}

func (e *EncodingError) Error() string {
	if e.Format != "" {
		return fmt.Sprintf("the connection has %s, and in this default_query_exec_mode pgx reads times as text: add "+
			"datestyle=ISO&intervalstyle=postgres to the database's URL, or use ALTER ROLE … SET", e.Format)
	}
	return fmt.Sprintf("the connection has client_encoding %s, and Tidemark needs UTF8: add client_encoding=UTF8 to the "+
		"database's URL, or ALTER ROLE … SET client_encoding = 'UTF8'", e.Encoding)
}

// CheckEncoding returns an [*EncodingError] if the server has reported a client_encoding other than
// UTF8. It asks nothing of the server. conn may be nil.
func CheckEncoding(conn *pgx.Conn) error {
	if conn == nil || conn.PgConn() == nil {
		return nil
	}
	switch encoding := conn.PgConn().ParameterStatus("client_encoding"); encoding {
	case "", "UTF8", "UNICODE": // "": a pooler that reports nothing
		return nil
	default:
		return &EncodingError{Encoding: encoding}
	}
}

// CheckTimes returns an [*EncodingError] if pgx cannot read the times and intervals that the server
// sends as text, as far as the server has reported that. It asks nothing of the server.
func CheckTimes(conn *pgx.Conn) error {
	for setting, readable := range map[string]string{"DateStyle": "ISO", "IntervalStyle": "postgres"} {
		value := conn.PgConn().ParameterStatus(setting)
		if first, _, _ := strings.Cut(value, ","); value != "" && first != readable {
			return &EncodingError{Format: setting + " " + value}
		}
	}
	return nil
}
