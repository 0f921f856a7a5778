package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-go/tidemark/internal/auth"
)

func TestViewersHaveAQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const connections = 8
		q := newQuota(connections)
		entered, leave := make(chan string, 100), make(chan struct{})
		handler := q.share(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			entered <- auth.From(r.Context()).Name
			<-leave
		}))
		answers := make(chan int, 100)
		ask := func(name string, role auth.Role) {
			ctx := auth.With(context.WithoutCancel(t.Context()), auth.Identity{Name: name, Role: role, Via: "token"})
			go func() {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
				answers <- w.Code
			}()
		}
		// Three viewers send more requests than can run at once. Each viewer runs at most two, all
		// viewers together four.
		const viewers, each = 3, viewerRequests + 1
		for i := range viewers * each {
			ask(fmt.Sprint("viewer ", i%viewers), auth.Viewer)
		}
		synctest.Wait()
		running := map[string]int{}
		for len(entered) > 0 {
			running[<-entered]++
		}
		all := 0
		for name, n := range running {
			if all += n; n > viewerRequests {
				t.Errorf("%s has %d requests at once", name, n)
			}
		}
		if all != connections/2 {
			t.Errorf("viewers have %d requests at once, they may have %d", all, connections/2)
		}
		ask("operator", auth.Operator)
		synctest.Wait()
		if len(entered) != 1 || <-entered != "operator" {
			t.Error("an operator waits for viewers")
		}
		// A viewer can have only so many requests waiting.
		for range viewerWaiting + 5 {
			ask("viewer 0", auth.Viewer)
		}
		synctest.Wait()
		if len(answers) == 0 {
			t.Error("no request is refused, however many wait")
		}
		for len(answers) > 0 {
			if code := <-answers; code != http.StatusTooManyRequests {
				t.Errorf("a request over the quota is answered %d", code)
			}
		}
		close(leave)
		synctest.Wait()
		for len(answers) > 0 {
			if code := <-answers; code != http.StatusOK {
				t.Errorf("a request that waited is answered %d", code)
			}
		}
		// A viewer who has used up the quota of time must pause until it refills. Others do not.
		end, _ := q.begin(t.Context(), "greedy", true)
		<-time.After(2 * viewerWork)
		end()
		end, wait := q.begin(t.Context(), "greedy", true)
		if end != nil || wait <= 0 {
			t.Errorf("a viewer who has used up the quota may go on, or wait %s", wait)
		}
		if end, _ := q.begin(t.Context(), "modest", true); end == nil {
			t.Error("another viewer is refused")
		} else {
			end()
		}
		<-time.After(wait + time.Second)
		if end, _ := q.begin(t.Context(), "greedy", true); end == nil {
			t.Error("the quota does not come back")
		} else {
			end()
		}
		<-time.After(time.Hour)
		if q.forget(); len(q.users) > 0 {
			t.Errorf("%d identities are remembered", len(q.users))
		}
	})
}

func TestOneOperatorLeavesAConnectionToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const connections = 8
		q := newQuota(connections)
		entered, leave := make(chan auth.Identity, 1000), make(chan struct{})
		handler := q.share(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			entered <- auth.From(r.Context())
			<-leave
		}))
		answers := make(chan int, 1000)
		ask := func(id auth.Identity) {
			ctx := auth.With(context.WithoutCancel(t.Context()), id)
			go func() {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
				answers <- w.Code
			}()
		}
		count := func() (n int) {
			synctest.Wait()
			for ; len(entered) > 0; n++ {
				<-entered
			}
			return n
		}
		for range operatorWaiting {
			ask(auth.Identity{Name: "ada", Role: auth.Admin, Via: "token", TokenID: 1})
		}
		if n := count(); n != connections-1 {
			t.Errorf("one admin has %d requests at once, want %d", n, connections-1)
		}
		ask(auth.Identity{Name: "ben", Role: auth.Operator, Via: "token", TokenID: 2})
		if n := count(); n != 1 {
			t.Error("an operator waits for an admin")
		}
		// A session belongs to its token, so a login adds no quota.
		for via, id := range map[string]int64{"token": 3, "session": 3} {
			ask(auth.Identity{Name: "eve", Role: auth.Viewer, Via: via, TokenID: id})
			ask(auth.Identity{Name: "eve", Role: auth.Viewer, Via: via, TokenID: id})
		}
		if n := count(); n != viewerRequests {
			t.Errorf("a viewer with a token and a session has %d requests at once, want %d", n, viewerRequests)
		}
		for range operatorWaiting {
			ask(auth.Identity{Name: "ada", Role: auth.Admin, Via: "session", TokenID: 1})
		}
		synctest.Wait()
		if len(answers) == 0 {
			t.Error("no request of an admin is refused, however many wait")
		}
		close(leave)
	})
}
