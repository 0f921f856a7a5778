package failure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	state := func(code string) error { return fmt.Errorf("apply: %w", &pgconn.PgError{Code: code}) }
	plain := errors.New("no luck")
	tests := []struct {
		what string
		err  error
		want Class
	}{
		{"another server is away", state("08006"), ClassTransient},
		{"another server refuses the password", state("28P01"), ClassTransient},
		{"another database is gone", state("3D000"), ClassTransient},
		{"limit on temporary files", state("53400"), ClassTransient},
		{"too many connections", state("53300"), ClassInfrastructure},
		{"disk full", state("53100"), ClassInfrastructure},
		{"out of memory", state("53200"), ClassInfrastructure},
		{"shutdown by an administrator", state("57P01"), ClassInfrastructure},
		{"crash of the server", state("57P02"), ClassInfrastructure},
		{"cannot connect now", state("57P03"), ClassInfrastructure},
		{"cancelled, or statement timeout", state("57014"), ClassInfrastructure},
		{"read-only server", state("25006"), ClassInfrastructure},
		{"idle in transaction", state("25P03"), ClassInfrastructure},
		{"serialization failure", state("40001"), ClassInfrastructure},
		{"deadlock", state("40P01"), ClassLock},
		{"lock timeout", state("55P03"), ClassLock},
		{"input or output of the server", state("58030"), ClassInfrastructure},
		{"unique violation", state("23505"), ClassPermanent},
		{"foreign key violation", state("23503"), ClassPermanent},
		{"invalid text", state("22P02"), ClassPermanent},
		{"a row twice in one ON CONFLICT", state("21000"), ClassPermanent},
		{"syntax error", state("42601"), ClassPermanent},
		{"type mismatch", state("42804"), ClassPermanent},
		{"index row too large", state("54000"), ClassPermanent},
		{"missing table", state("42P01"), ClassTransient},
		{"missing column", state("42703"), ClassTransient},
		{"missing function", state("42883"), ClassTransient},
		{"missing privilege", state("42501"), ClassTransient},
		{"missing schema", state("3F000"), ClassTransient},
		{"raised by a function", state("P0001"), ClassTransient},
		{"no SQLSTATE", state(""), ClassTransient},
		{"dial", &net.OpError{Op: "dial", Err: errors.New("refused")}, ClassTransient},
		{"connect", &pgconn.ConnectError{}, ClassTransient},
		{"cancelled context", fmt.Errorf("apply: %w", context.Canceled), ClassTransient},
		{"deadline of a context", fmt.Errorf("apply: %w", context.DeadlineExceeded), ClassTransient},
		{"any error on a broken connection", &BrokenError{plain}, ClassInfrastructure},
		{"a panic", &PanicError{Value: "no"}, ClassPermanent},
		{"a panic with a deadlock", &PanicError{Value: state("40P01")}, ClassLock},
		{"marked", fmt.Errorf("apply: %w", Permanent(plain)), ClassPermanent},
		{"marked by mistake", Permanent(state("40P01")), ClassLock},
		{"decode", &event.DecodeError{Type: "moved", Err: plain}, ClassPermanent},
		{"json", json.Unmarshal([]byte("{"), new(int)), ClassPermanent},
		{"json of another type", json.Unmarshal([]byte(`"a"`), new(int)), ClassPermanent},
		{"unknown version", fmt.Errorf("upcast: %w", journal.ErrUnknownVersion), ClassPermanent},
		{"the end of some text, which would be read again for ever", io.ErrUnexpectedEOF, ClassTransient},
		{"anything else", plain, ClassTransient},
	}
	for _, test := range tests {
		if got := Classify(test.err); got != test.want {
			t.Errorf("%s: %s, want %s", test.what, got, test.want)
		}
	}
	for _, err := range []error{
		state("57P01"), state("55P03"), state("40P01"), &net.OpError{Op: "dial", Err: plain}, &pgconn.ConnectError{},
		context.Canceled, fmt.Errorf("read: %w", context.DeadlineExceeded), io.ErrUnexpectedEOF, &BrokenError{plain},
	} {
		if !IsInfrastructure(err) {
			t.Errorf("of a request, %v is not the infrastructure's", err)
		}
	}
	if Permanent(nil) != nil || IsInfrastructure(nil) {
		t.Error("nil is no error")
	}
}

func TestAnErrorOfAnEventIsToldWithoutItsValues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		cause error
		want  string
	}{
		{
			&pgconn.PgError{Code: "22P02", Message: `invalid input syntax for type integer: "secret"`, Detail: "secret"},
			`projection p: event 7 (noted) of campaign "c": invalid input syntax for type integer: "…"`,
		},
		{
			fmt.Errorf("fold: %w", errors.New(`strconv.Atoi: parsing "secret": invalid syntax`)),
			`projection p: event 7 (noted) of campaign "c": … (an error of its own)`,
		},
	} {
		e := &ApplyError{Projection: "p", CampaignID: "c", Seq: 7, EventType: "noted", Err: test.cause}
		if got := e.Redacted(); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
