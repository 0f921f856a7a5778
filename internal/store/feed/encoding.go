package feed

import (
	"fmt"

	"github.com/jackc/pgx/v5"
)

// EncodingError is returned for a connection on which Postgres converts text from and to another
// encoding than UTF8. That changes text without an error, or refuses it.
type EncodingError struct {
	Encoding string // the connection's client_encoding
}

func (e *EncodingError) Error() string {
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
		return &EncodingError{encoding}
	}
}
