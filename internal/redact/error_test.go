package redact_test

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/redact"
)

func TestTheValueThatCouldNotBeReadIsTakenOutOfAMessage(t *testing.T) {
	t.Parallel()
	_, number := strconv.Atoi(`sec"ret`)
	_, at := time.Parse(time.RFC3339, "2026-secret")
	tests := []struct{ message, want string }{
		{number.Error(), `strconv.Atoi: parsing "…": invalid syntax`},
		{at.Error(), `parsing time "…" as "2006-01-02T15:04:05Z07:00": cannot parse  as "01"`},
		{
			json.Unmarshal([]byte("300"), new(int8)).Error(),
			`json: cannot unmarshal number … into Go value of type int8`,
		},
		{
			`failed to encode args[1]: unable to encode "secret" into binary format for int4 (OID 23): cannot find encode plan`,
			`failed to encode args[1]: unable to encode … into binary format for int4 (OID 23): cannot find encode plan`,
		},
		{`relation "players" does not exist`, `relation "players" does not exist`},
	}
	for _, test := range tests {
		if got := redact.Text(test.message); got != test.want {
			t.Errorf("%s\nbecomes %s\nwant    %s", test.message, got, test.want)
		}
	}
	data := []struct {
		err  *pgconn.PgError
		want string
	}{
		{
			&pgconn.PgError{Code: "22P02", Message: `invalid input syntax for type integer: "sec"ret"`},
			`invalid input syntax for type integer: "…"`,
		},
		{&pgconn.PgError{Code: "42601", Message: `syntax error at or near "secret"`}, `syntax error at or near "…"`},
		{
			&pgconn.PgError{
				Code:    "23505",
				Message: `duplicate key value violates unique constraint "players_pkey"`,
				Detail:  `Key (name)=(secret) already exists.`,
			},
			`duplicate key value violates unique constraint "players_pkey"`,
		},
	}
	for _, test := range data {
		if got := redact.Postgres(test.err); got != test.want {
			t.Errorf("%s becomes %s, want %s", test.err.Message, got, test.want)
		}
	}
}
