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

// Limits of one identity in this process.
const (
	viewerRequests = 2                // at once; more wait for their turn
	viewerWaiting  = 16               // requests waiting; more are refused
	viewerWork     = 30 * time.Second // time spent on requests before they are refused for a while
	viewerRefill   = 2                // seconds until one second of viewerWork is available again

	operatorWaiting = 100 // waiting requests of an operator or an admin; more are refused
)

// quota limits the listener's connections for each identity, and the database's time for viewers. All
// viewers together get half of the connections. An operator or an admin gets all but one, so that
// others still get through.
type quota struct {
	mu      sync.Mutex
	each    int               // maximum concurrent requests of one operator
	most    int               // maximum concurrent requests of all viewers
	running int               // current requests of viewers
	users   map[string]*usage // identities that run or wait, or have used time
	changed chan struct{}     // closed when a request ends
}

type usage struct {
	running, waiting int
	spent            time.Duration // as of at; only viewers spend
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

// share makes a request wait for its turn, or refuses it with 429 and Retry-After.
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
				problem.New(http.StatusTooManyRequests, "you use more than your share of the database", remedy).
					Of("requests", id.Name, strconv.Itoa(share)+" at once"),
			)
			return
		}
		defer end()
		next.ServeHTTP(w, r)
	})
}

// begin waits for the request's turn and counts the request until end is called. A nil end refuses
// the request: the identity may try again after wait.
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

func (u *usage) repay(now time.Time) {
	u.spent = max(0, u.spent-now.Sub(u.at)/viewerRefill)
	u.at = now
}

// forget drops identities that use nothing and owe nothing.
func (q *quota) forget() {
	now := time.Now()
	for user, u := range q.users {
		if u.repay(now); u.running+u.waiting == 0 && u.spent == 0 {
			delete(q.users, user)
		}
	}
}
