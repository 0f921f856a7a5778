package api

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestAStreamJoinsTheTailOnlyWhereItHasReadUpToIt has an event appended between two reads of a stream that
// catches up. The tail reads it meanwhile.
func TestAStreamJoinsTheTailOnlyWhereItHasReadUpToIt(t *testing.T) {
	t.Parallel()
	for path, query := range map[string]string{
		"/events/stream": "?type=ordered", "/campaigns/{campaign}/events/stream": "",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			order := func(n int) {
				t.Helper()
				if _, err := pool.Exec(t.Context(), `SELECT tidemark.append('oak', jsonb_agg(jsonb_build_object('type', 'ordered')))
					FROM generate_series(1, $1::int)`, n); err != nil {
					t.Fatal(err)
				}
			}
			order(streamEvents + 10)
			a := &API{cfg: Config{Pool: pool}, tail: newTail(pool, slog.New(slog.DiscardHandler))}
			request := httptest.NewRequestWithContext(t.Context(), "GET", "/"+query, nil)
			request.SetPathValue("campaign", "oak")
			s, err := a.stream(request, path, slices.DeleteFunc(param.Of(reflect.TypeFor[streamed]()), func(p param.Param) bool {
				return p.Name == "campaign" && query != ""
			}))
			var b bytes.Buffer
			if err == nil {
				err = s.enter(&b)
			}
			for reads := 0; err == nil && !s.joined && reads < 10; reads++ {
				if reads == 1 {
					order(1)
				}
				var head int64
				if head, err = feed.Floor(t.Context(), pool); err == nil { // up to which the tail has read
					err = s.catchUp(&b, head)
				}
			}
			if err != nil || !s.joined {
				t.Fatalf("it has joined: %t, %v", s.joined, err)
			}
			if n := strings.Count(b.String(), "data: "); n != streamEvents+11 {
				t.Errorf("the stream has %d events, want %d", n, streamEvents+11)
			}
		})
	}
}
