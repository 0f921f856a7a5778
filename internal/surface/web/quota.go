package web

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

// What one identity may take, in this process.
const (
	viewerRequests = 2                // at once; more wait for their turn
	viewerWaiting  = 16               // and more than that are refused
	viewerWork     = 30 * time.Second // of requests, before they are refused for a while
	viewerRefill   = 2                // a second of work comes back in so many seconds

	operatorWaiting = 100 // requests of an operator or an admin that wait for their turn
)

// quota bounds what identities take of the listener's connections, and what viewers take of the
// database's time. All viewers together have half of the connections. An operator or an admin has
// all but one, so that others get through.
type quota struct {
	mu      sync.Mutex
	each    int               // requests of one operator at once
	most    int               // requests of all viewers at once
	running int               // requests of viewers
	users   map[string]*usage // those who run, wait or owe
	changed chan struct{}     // closed when a request has ended
}

// usage is what one identity takes.
type usage struct {
	running, waiting int
	spent            time.Duration // as of at
	at               time.Time
}

func newQuota(connections int) *quota {
	return &quota{
		each:    max(1, connections-1),
		most:    max(1, connections/2),
		users:   map[string]*usage{},
		changed: make(chan struct{}),
	}
}

// share has a request wait for its turn, or refuses it with 429 and the seconds to wait.
func (q *quota) share(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := auth.From(r.Context())
		viewer := id.Role <= auth.Viewer
		end, wait := q.begin(r.Context(), id.Owner(), viewer)
		if end == nil {
			seconds := strconv.Itoa(int(wait/time.Second) + 1)
			w.Header().Set("Retry-After", seconds)
			share, remedy := q.each, "wait "+seconds+" s"
			if viewer {
				share, remedy = viewerRequests, remedy+", or have an admin give you the role operator"
			}
			problem.Write(
				w,
				problem.New(http.StatusTooManyRequests, "you ask for more than your share of the database", remedy).
					Of("requests", id.Name, strconv.Itoa(share)+" at once"),
			)
			return
		}
		defer end()
		next.ServeHTTP(w, r)
	})
}

// begin counts a request from now until end is called. It waits for its turn. A nil end refuses the
// request; then the identity may try again after wait.
func (q *quota) begin(ctx context.Context, user string, viewer bool) (end func(), wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forget()
	requests, waiting := q.each, operatorWaiting
	if viewer {
		requests, waiting = viewerRequests, viewerWaiting
	}
	u := q.users[user]
	if u == nil {
		u = &usage{at: time.Now()}
		q.users[user] = u
	}
	if u.spent >= viewerWork || u.waiting >= waiting {
		return nil, viewerRefill * max(0, u.spent-viewerWork)
	}
	u.waiting++
	defer func() { u.waiting-- }()
	for u.running >= requests || viewer && q.running >= q.most {
		changed := q.changed
		q.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		q.mu.Lock()
		if ctx.Err() != nil {
			return nil, 0
		}
	}
	u.running++
	if viewer {
		q.running++
	}
	began := time.Now()
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		u.repay(time.Now())
		u.running--
		if viewer {
			u.spent += time.Since(began)
			q.running--
		}
		close(q.changed)
		q.changed = make(chan struct{})
	}, 0
}

// repay gives back what time has brought.
func (u *usage) repay(now time.Time) {
	u.spent = max(0, u.spent-now.Sub(u.at)/viewerRefill)
	u.at = now
}

// forget drops identities that take nothing and owe nothing.
func (q *quota) forget() {
	now := time.Now()
	for user, u := range q.users {
		if u.repay(now); u.running+u.waiting == 0 && u.spent == 0 {
			delete(q.users, user)
		}
	}
}
