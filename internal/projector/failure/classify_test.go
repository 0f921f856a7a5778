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

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	state := func(code string) error { return fmt.Errorf("apply: %w", &pgconn.PgError{Code: code}) }
	plain := errors.New("no luck")
	tests := []struct {
		what string
		err  error
		want projection.Class
	}{
		{"another server is away", state("08006"), projection.ClassTransient},
		{"another server refuses the password", state("28P01"), projection.ClassTransient},
		{"another database is gone", state("3D000"), projection.ClassTransient},
		{"limit on temporary files", state("53400"), projection.ClassTransient},
		{"too many connections", state("53300"), projection.ClassInfrastructure},
		{"disk full", state("53100"), projection.ClassInfrastructure},
		{"out of memory", state("53200"), projection.ClassInfrastructure},
		{"shutdown by an administrator", state("57P01"), projection.ClassInfrastructure},
		{"crash of the server", state("57P02"), projection.ClassInfrastructure},
		{"cannot connect now", state("57P03"), projection.ClassInfrastructure},
		{"cancelled, or statement timeout", state("57014"), projection.ClassInfrastructure},
		{"read-only server", state("25006"), projection.ClassInfrastructure},
		{"idle in transaction", state("25P03"), projection.ClassInfrastructure},
		{"serialization failure", state("40001"), projection.ClassInfrastructure},
		{"deadlock", state("40P01"), projection.ClassLock},
		{"lock timeout", state("55P03"), projection.ClassLock},
		{"input or output of the server", state("58030"), projection.ClassInfrastructure},
		{"unique violation", state("23505"), projection.ClassPermanent},
		{"foreign key violation", state("23503"), projection.ClassPermanent},
		{"invalid text", state("22P02"), projection.ClassPermanent},
		{"a row twice in one ON CONFLICT", state("21000"), projection.ClassPermanent},
		{"syntax error", state("42601"), projection.ClassPermanent},
		{"type mismatch", state("42804"), projection.ClassPermanent},
		{"index row too large", state("54000"), projection.ClassPermanent},
		{"missing table", state("42P01"), projection.ClassTransient},
		{"missing column", state("42703"), projection.ClassTransient},
		{"missing function", state("42883"), projection.ClassTransient},
		{"missing privilege", state("42501"), projection.ClassTransient},
		{"missing schema", state("3F000"), projection.ClassTransient},
		{"raised by a function", state("P0001"), projection.ClassTransient},
		{"no SQLSTATE", state(""), projection.ClassTransient},
		{"dial", &net.OpError{Op: "dial", Err: errors.New("refused")}, projection.ClassTransient},
		{"connect", &pgconn.ConnectError{}, projection.ClassTransient},
		{"cancelled context", fmt.Errorf("apply: %w", context.Canceled), projection.ClassTransient},
		{"deadline of a context", fmt.Errorf("apply: %w", context.DeadlineExceeded), projection.ClassTransient},
		{"any error on a broken connection", &BrokenError{plain}, projection.ClassInfrastructure},
		{"a panic", &PanicError{Value: "no"}, projection.ClassPermanent},
		{"a panic with a deadlock", &PanicError{Value: state("40P01")}, projection.ClassLock},
		{"marked", fmt.Errorf("apply: %w", projection.Permanent(plain)), projection.ClassPermanent},
		{"marked by mistake", projection.Permanent(state("40P01")), projection.ClassLock},
		{"decode", &event.DecodeError{Type: "moved", Err: plain}, projection.ClassPermanent},
		{"json", json.Unmarshal([]byte("{"), new(int)), projection.ClassPermanent},
		{"json of another type", json.Unmarshal([]byte(`"a"`), new(int)), projection.ClassPermanent},
		{"unknown version", fmt.Errorf("upcast: %w", catalogue.ErrUnknownVersion), projection.ClassPermanent},
		{"the end of some text, which would be read again for ever", io.ErrUnexpectedEOF, projection.ClassTransient},
		{"anything else", plain, projection.ClassTransient},
	}
	for _, test := range tests {
		if got := projection.Classify(test.err); got != test.want {
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
	if projection.Permanent(nil) != nil || IsInfrastructure(nil) {
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
		e := &projection.ApplyError{Projection: "p", CampaignID: "c", Seq: 7, EventType: "noted", Err: test.cause}
		if got := e.Redacted(); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
