package statistics_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/pkg/sink/statistics"
	"github.com/tidemark-go/tidemark/test/support/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// watched records the events that the sink has accepted.
type watched struct {
	publisher.Sink
	io.Closer
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
		s := open(t, slog.DiscardHandler, 0)
		w := &watched{Sink: s, Closer: s}
		return publishertest.Target{Sink: w, Received: func(context.Context) ([]publishertest.Received, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Clone(w.received), nil
		}}
	})
}

// closer is a sink with a Close method.
type closer interface {
	publisher.Sink
	io.Closer
}

func open(t *testing.T, log slog.Handler, every time.Duration) closer {
	t.Helper()
	s, err := statistics.New(statistics.Config{Logger: slog.New(log), Every: every})
	if err != nil {
		t.Fatal(err)
	}
	return s.(closer)
}

func events(eventType string, campaigns ...string) (events []publisher.Event) {
	for _, c := range campaigns {
		events = append(events, publisher.Event{Event: event.Event{Type: eventType, CampaignID: c}})
	}
	return events
}

func publish(t *testing.T, s publisher.Sink, events []publisher.Event) {
	t.Helper()
	if err := s.Publish(t.Context(), events); err != nil {
		t.Fatal(err)
	}
}

// counted closes the sink and returns the counts it has logged.
func counted(t *testing.T, s closer, out *bytes.Buffer) (lines []string) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(out.String()) {
		_, count, _ := strings.Cut(strings.TrimSpace(line), "event_type=")
		lines = append(lines, count)
	}
	return lines
}

func TestCountsAreByTypeAndPrefix(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := open(t, slog.NewTextHandler(&out, nil), time.Hour)
	publish(t, s, events("placed", "shop-1", "shop-2", "club-1", "alone"))
	publish(t, s, events("paid", "shop-1"))
	want := []string{
		"placed campaign_prefix=shop- events=2", "paid campaign_prefix=shop- events=1",
		"placed campaign_prefix=* events=1", "placed campaign_prefix=club- events=1",
	}
	if got := counted(t, s, &out); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTooManyPrefixesCountAsOther(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := open(t, slog.NewTextHandler(&out, nil), time.Hour)
	for i := range 3000 {
		publish(t, s, events("noted", fmt.Sprintf("c%d-1", i)))
	}
	got := counted(t, s, &out)
	if len(got) != 1001 || got[0] != "other campaign_prefix=other events=2000" {
		t.Errorf("there are %d counts, the first is %s", len(got), got[0])
	}
}

// lines sends each logged line to a channel.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func TestWhatWasCountedSinceIsLogged(t *testing.T) {
	t.Parallel()
	logged := make(lines, 10)
	s := open(t, slog.NewTextHandler(logged, nil), 100*time.Millisecond)
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
	s := open(t, slog.NewTextHandler(&out, nil), time.Hour)
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
		"statistics:?evry=5s":   `the URL has a parameter "evry": it may have every`,
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
