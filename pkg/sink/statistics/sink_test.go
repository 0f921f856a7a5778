package statistics_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/pkg/sink/statistics"
	"github.com/tidemark-go/tidemark/test/support/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// watched notes what the sink says that it has counted; only how many is in the counts themselves.
type watched struct {
	*statistics.Sink
	mu       sync.Mutex
	received []publishertest.Received
}

func (w *watched) Publish(ctx context.Context, events []publisher.Event) error {
	if err := w.Sink.Publish(ctx, events); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		w.received = append(w.received, publishertest.Received{EventID: e.ID, CampaignID: e.CampaignID})
	}
	return nil
}

func TestStatisticsKeepTheRulesOfSinks(t *testing.T) {
	t.Parallel()
	publishertest.Run(t, publisher.Encoder{}, func(t *testing.T) publishertest.Target {
		s, err := statistics.New(statistics.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		w := &watched{Sink: s}
		return publishertest.Target{Sink: w, Received: func(context.Context) ([]publishertest.Received, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			counted := 0
			for _, c := range s.Counts() {
				counted += int(c.Events)
			}
			if counted != len(w.received) {
				return nil, fmt.Errorf("%d events were sent, %d counted", len(w.received), counted)
			}
			return slices.Clone(w.received), nil
		}}
	})
}

func events(eventType string, campaigns ...string) (events []publisher.Event) {
	for _, c := range campaigns {
		events = append(events, publisher.Event{Event: journal.Event{Type: eventType, CampaignID: c}})
	}
	return events
}

func publish(t *testing.T, s *statistics.Sink, events []publisher.Event) {
	t.Helper()
	if err := s.Publish(t.Context(), events); err != nil {
		t.Fatal(err)
	}
}

func TestCountsAreByTypeAndPrefix(t *testing.T) {
	t.Parallel()
	s, err := statistics.New(statistics.Config{Logger: slog.New(slog.DiscardHandler), Separator: "/"})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, s, events("placed", "shop/1", "shop/2", "club/1", "alone"))
	publish(t, s, events("paid", "shop/1"))
	want := "[{placed shop/ 2} {paid shop/ 1} {placed * 1} {placed club/ 1}]"
	if got := fmt.Sprint(s.Counts()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestTooManyPrefixesCountAsOther(t *testing.T) {
	t.Parallel()
	s, err := statistics.New(statistics.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		publish(t, s, events("noted", fmt.Sprintf("c%d-1", i)))
	}
	counts := s.Counts()
	if len(counts) != 1001 || counts[0] != (statistics.Count{EventType: "other", Prefix: "other", Events: 2000}) {
		t.Errorf("there are %d counts, the first is %v", len(counts), counts[0])
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// lines hands on each line that is logged.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func TestWhatWasCountedSinceIsLogged(t *testing.T) {
	t.Parallel()
	logged := make(lines, 10)
	s, err := statistics.New(statistics.Config{
		Logger: slog.New(slog.NewTextHandler(logged, nil)),
		Every:  100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		publish(t, s, events("noted", "a-1", "a-2"))
		select {
		case line := <-logged:
			if !strings.Contains(line, "event_type=noted campaign_prefix=a- events=2") {
				t.Errorf("round %d logs %s", i, line)
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("nothing is logged")
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestCloseLogsTheRest(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s, err := statistics.New(statistics.Config{Logger: slog.New(slog.NewTextHandler(&out, nil)), Every: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, s, events("noted", "a-1"))
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if strings.Count(out.String(), "events=1") != 1 {
		t.Errorf("it logs %q", out.String())
	}
}

func TestBadSettingsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"statistics:?every=5ms": "every is 5ms: it must be at least 100ms",
		"statistics://host":     `the URL names "host", and statistics have no address: write "statistics:"`,
		"statistics:?evry=5s":   `the URL has a parameter "evry": it may have every, separator`,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		_, err = statistics.Kind().Open(publisher.Settings{
			URL: u, Logger: slog.New(slog.DiscardHandler),
			Decode: func(any) error { return nil },
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", address, err)
		}
	}
}
