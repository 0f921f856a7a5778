package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/surface/api"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

const (
	streamBeat  = 15 * time.Second // between comments that keep a quiet stream alive
	streamWrite = 5 * time.Second  // time for a client to take a write before it is dropped
	streamKeeps = 4 << 10          // bytes of a buffer that an idle stream keeps
)

// hub has one poller for all streams of server-sent events. A stream stores only the version it has
// sent. A slow client skips versions that were replaced meanwhile; a client that takes nothing for 5 s
// is dropped.
type hub struct {
	interval time.Duration
	most     int // maximum number of streams
	each     int // maximum of one identity
	holding  func(ctx context.Context, ids []auth.Identity) ([]bool, error)
	patience time.Duration // time for a client to take a write
	poll     func(ctx context.Context) (marks, error)
	logger   *slog.Logger

	mu      sync.Mutex
	streams map[*stream]struct{}
	latest  marks
	version int64         // of latest; 0: none yet
	changed chan struct{} // closed when there is a new version
	wanted  chan struct{} // capacity 1: a stream of marks was opened
	done    chan struct{} // closed when the hub ends
}

type stream struct {
	id    auth.Identity
	owner string        // of id
	over  chan struct{} // closed when its token is no longer valid
}

func newHub(
	cfg Config, holding func(ctx context.Context, ids []auth.Identity) ([]bool, error),
	poll func(ctx context.Context) (marks, error),
) *hub {
	return &hub{
		interval: cfg.StreamInterval, most: cfg.MaxStreams, each: cfg.MaxStreamsEach, holding: holding,
		patience: streamWrite, poll: poll, logger: cfg.Logger, streams: map[*stream]struct{}{}, changed: make(chan struct{}),
		wanted: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// Run polls while there are streams, until ctx ends. All streams end with it.
func (h *hub) Run(ctx context.Context) error {
	defer close(h.done)
	tick := time.NewTicker(h.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.wanted:
		case <-tick.C:
		}
		if h.watched() {
			h.step(ctx)
		}
	}
}

// step ends streams whose tokens are no longer valid, polls once and tells the others what is new.
func (h *hub) step(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := h.end(bounded)
	var latest marks
	if err == nil {
		latest, err = h.poll(bounded)
	}
	if err != nil {
		if ctx.Err() == nil {
			h.logger.WarnContext(ctx, "event streams wait: their figures could not be read", "error", err)
		}
		return
	}
	h.tell(latest)
}

// end ends the streams of tokens, sessions and JWTs that were revoked or have expired.
func (h *hub) end(ctx context.Context) error {
	h.mu.Lock()
	open, ids := make([]*stream, 0, len(h.streams)), make([]auth.Identity, 0, len(h.streams))
	for s := range h.streams {
		open, ids = append(open, s), append(ids, s.id)
	}
	h.mu.Unlock()
	holds, err := h.holding(ctx, ids)
	if err != nil {
		return err
	}
	for i, s := range open {
		if !holds[i] {
			h.leave(s)
			close(s.over)
		}
	}
	return nil
}

func (h *hub) tell(latest marks) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.version > 0 && h.latest == latest {
		return
	}
	h.latest = latest
	h.version++
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *hub) watched() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.streams) > 0
}

// since writes the latest marks to b if they are newer than version seen. It returns their version and
// a channel that is closed when there are newer ones.
func (h *hub) since(b *bytes.Buffer, seen int64) (int64, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.version > seen {
		data, _ := json.Marshal(h.latest)
		fmt.Fprintf(b, "id: %d\nevent: marks\ndata: %s\n\n", h.version, data)
	}
	return h.version, h.changed
}

// enter opens a stream, or returns nil and the limit that was reached.
func (h *hub) enter(id auth.Identity) (s *stream, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	same, owner := 0, id.Owner()
	for other := range h.streams {
		if other.owner == owner {
			same++
		}
	}
	switch {
	case len(h.streams) >= h.most:
		return nil, h.most
	case same >= h.each:
		return nil, h.each
	}
	s = &stream{id: id, owner: owner, over: make(chan struct{})}
	h.streams[s] = struct{}{}
	return s, h.most
}

func (h *hub) leave(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, s)
}

// ServeHTTP streams the marks.
func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var seen int64
	h.stream(w, r, func(b *bytes.Buffer) (more <-chan struct{}, err error) {
		if seen == 0 {
			select {
			case h.wanted <- struct{}{}:
			default:
			}
		}
		seen, more = h.since(b, seen)
		return more, nil
	})
}

// stream streams what fill adds until the client leaves or is too slow, its token is no longer valid, or
// the hub ends.
func (h *hub) stream(w http.ResponseWriter, r *http.Request, fill api.Fill) {
	s, most := h.enter(auth.From(r.Context()))
	if s == nil {
		w.Header().Set("Retry-After", "10")
		problem.Write(w, problem.New(http.StatusServiceUnavailable, "there are too many event streams",
			"close some, or ask another replica").Of("streams", fmt.Sprint(most+1), fmt.Sprint(most)))
		return
	}
	defer h.leave(s)
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	beat := time.NewTicker(streamBeat)
	defer beat.Stop()
	var b bytes.Buffer
	b.WriteString("retry: 3000\n\n")
	for {
		more, err := fill(&b)
		if err != nil {
			if r.Context().Err() != nil {
				return
			}
			h.logger.WarnContext(r.Context(), "event stream ends: its events could not be read", "error", err)
			b.WriteString("event: error\ndata: ")
			_ = json.NewEncoder(&b).Encode(problemOf(err))
			b.WriteString("\n")
			if control.SetWriteDeadline(time.Now().Add(h.patience)) == nil {
				_, _ = w.Write(b.Bytes())
			}
			return
		}
		if b.Len() > 0 {
			if control.SetWriteDeadline(time.Now().Add(h.patience)) != nil {
				return
			}
			if _, err := w.Write(b.Bytes()); err != nil || control.Flush() != nil {
				return
			}
			if b.Reset(); b.Cap() > streamKeeps {
				b = bytes.Buffer{}
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-h.done:
			return
		case <-s.over:
			return
		case <-beat.C:
			b.WriteString(":\n\n")
		case <-more:
		}
	}
}

// marks are counters. They change when something happens that pages may show.
type marks struct {
	Failures   int64 `json:"failures"`   // grows with each failed attempt and each act on a failed campaign
	Acts       int64 `json:"acts"`       // grows with each act of an operator
	Operations int64 `json:"operations"` // grows while an operation makes progress
	Position   int64 `json:"position"`   // grows with appends
	Applied    int64 `json:"applied"`    // events applied by the known workers
	Published  int64 `json:"published"`  // events published
}

func (s *Server) poll(ctx context.Context) (m marks, err error) {
	err = s.cfg.Pool.QueryRow(ctx, queryMarks).Scan(&m.Failures, &m.Acts, &m.Operations, &m.Position, &m.Applied,
		&m.Published)
	return m, err
}
