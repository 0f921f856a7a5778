package operator

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/store/failed"
)

func TestAnErrorHasOneAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err    error
		status int
	}{
		{fmt.Errorf("requeue: %w", failed.ErrConflict), http.StatusConflict},
		{failed.ErrNotFound, http.StatusNotFound},
		{admin.ErrInvalid, http.StatusBadRequest},
		{admin.ErrDeclined, http.StatusUnprocessableEntity},
	} {
		got, ok := AnswerTo(tt.err)
		if !ok || got.Status != tt.status || got.Remedy == "" || got.Page == "" {
			t.Errorf("%v is answered %+v: want %d", tt.err, got, tt.status)
		}
	}
	if got, ok := AnswerTo(errors.New("new")); ok {
		t.Errorf("an error that is not in the table is answered %+v", got)
	}
	seen := map[error]bool{}
	for _, a := range answers() {
		if seen[a.err] {
			t.Errorf("%v has two answers", a.err)
		}
		seen[a.err] = true
	}
}
