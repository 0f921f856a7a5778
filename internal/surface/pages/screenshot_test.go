package pages_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// picture is the picture in README. It shows a worker that has been busy for busyFor.
const (
	picture = "../../../docs/images/overview.png"
	busyFor = 20 * time.Second
)

// partner is a sink that refuses events of one type. unreachable is a sink whose broker is away.
type (
	partner     struct{ refuses string }
	unreachable struct{}
)

func (partner) Name() string { return "webhook" }

func (s partner) Publish(_ context.Context, events []publisher.Event) error {
	var failures []publisher.Failure
	for i, e := range events {
		if e.Type == s.refuses {
			failures = append(failures, publisher.Failure{
				Index: i, Err: errors.New("422: the ledger has no account of this hero"), Permanent: true,
			})
		}
	}
	if failures != nil {
		return &publisher.BatchError{Failures: failures}
	}
	return nil
}

func (unreachable) Name() string { return "kafka" }

func (unreachable) Publish(context.Context, []publisher.Event) error {
	return errors.New("dial tcp 10.0.3.17:9092: connect: connection refused")
}

// TestTheOverviewOfREADME lets a worker fail at some campaigns and its publishers at some events,
// while others are appended and applied. With -update, as in `make screenshot`, it takes the
// picture for README.
func TestTheOverviewOfREADME(t *testing.T) {
	t.Parallel()
	w := &world{pool: pgtest.New(t), token: map[auth.Role]string{}}
	code := worldCode()
	worker, err := projector.New(projector.Config{Pool: w.pool, Projections: code})
	if err != nil {
		t.Fatal(err)
	}
	relay, err := publisher.New(publisher.Config{
		Pool: w.pool, Topics: []publisher.Topic{{Name: "campaign-events"}},
		Publishers: []publisher.Publisher{
			{Name: "billing", Sink: partner{"cursed"}, Topics: []string{"campaign-events"}},
			{Name: "search-index", Sink: unreachable{}, Topics: []string{"campaign-events"}},
			{Name: "audit-trail", Sink: taker{}, Topics: []string{"campaign-events"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 2)
	go func() { ended <- worker.Run(ctx) }()
	go func() { ended <- relay.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
	})
	for i := range 12 {
		campaign := fmt.Sprintf("barrow-%02d", i+1)
		w.append(t, campaign, heroEvents(3)...)
		if i < 9 {
			w.append(t, campaign, event.Event{
				Type: []string{"entombed", "cursed", "cursed"}[i%3], AggregateID: "imp", Payload: json.RawMessage(`{"spell":"hex"}`),
			})
		}
	}
	w.serve(t, code)
	deadline := time.Now().Add(2 * time.Minute)
	for _, text := range []string{"projection scores", "publisher search-index", "publisher billing"} {
		for tick := time.NewTicker(100 * time.Millisecond); ; <-tick.C {
			if status, body := w.get(t, auth.Viewer, "/"); status == http.StatusOK && strings.Contains(body, text) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the overview does not name %s", text)
			}
		}
	}
	if !*update {
		return
	}
	for end := time.Now().Add(busyFor); time.Now().Before(end); {
		for i := range 40 {
			w.append(t, fmt.Sprintf("keep-%02d", i), heroEvents(2+i%7)...)
		}
	}
	b := openTab(startBrowser(t), t, w, 1280, 800)
	b.logIn(w, auth.Operator)
	b.await("document.querySelector('#tiles .tile')")
	// The name of a test database is meaningless.
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".place").textContent = "demo"`))
	image, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(picture, image, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
