package operator

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/cli"
	"github.com/tidemark-go/tidemark/pkg/deferred"
)

func TestAnErrorHasOneAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err          error
		status, exit int
	}{
		{fmt.Errorf("requeue: %w", deferred.ErrConflict), http.StatusConflict, cli.ExitConflict},
		{deferred.ErrNotFound, http.StatusNotFound, cli.ExitFailed},
		{admin.ErrInvalid, http.StatusBadRequest, cli.ExitUsage},
		{admin.ErrDeclined, http.StatusUnprocessableEntity, cli.ExitDeclined},
	} {
		got, ok := AnswerTo(tt.err)
		if !ok || got.Status != tt.status || got.Exit() != tt.exit || got.Remedy == "" || got.Page == "" {
			t.Errorf("%v is answered %+v, exit code %d: want %d, %d", tt.err, got, got.Exit(), tt.status, tt.exit)
		}
	}
	if got, ok := AnswerTo(errors.New("new")); ok {
		t.Errorf("an error that is not in the table is answered %+v", got)
	}
	seen := map[error]bool{}
	for _, a := range answers() {
		for _, err := range a.Errs {
			if seen[err] {
				t.Errorf("%v has two answers", err)
			}
			seen[err] = true
		}
	}
}
