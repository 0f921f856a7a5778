package failure

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// WithContext adds the place where the database raised an error, such as the function of an event
// trigger. It is for statements without values of events.
func WithContext(err error) error {
	raised, is := errors.AsType[*pgconn.PgError](err)
	if !is || raised.Where == "" {
		return err
	}
	return fmt.Errorf("%w (CONTEXT: %s)", err, strings.ReplaceAll(raised.Where, "\n", "; "))
}
