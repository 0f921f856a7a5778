package log_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/pkg/sink/log"
	"github.com/tidemark-go/tidemark/test/support/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// open opens a sink by its URL. The sink logs to out.
func open(t *testing.T, address string, out *bytes.Buffer) (publisher.Sink, error) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return log.Kind().Open(publisher.Settings{
		Publisher: "audit", URL: u, Decode: func(any) error { return nil },
		Logger: slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: slog.LevelInfo})),
	})
}

func TestLogKeepsTheRulesOfSinks(t *testing.T) {
	t.Parallel()
	publishertest.Run(t, publisher.Encoder{}, func(t *testing.T) publishertest.Target {
		var out bytes.Buffer // needs no lock: slog's handler locks, and out is read only between calls of Publish
		s, err := open(t, "log:?body=true", &out)
		if err != nil {
			t.Fatal(err)
		}
		return publishertest.Target{Sink: s, Received: func(context.Context) (received []publishertest.Received, _ error) {
			for line := range strings.Lines(out.String()) {
				var record struct {
					EventID    uuid.UUID `json:"event_id"`
					CampaignID string    `json:"campaign_id"`
					Body       string
				}
				if err := json.Unmarshal([]byte(line), &record); err != nil {
					return nil, err
				}
				received = append(received, publishertest.Received{
					EventID: record.EventID, CampaignID: record.CampaignID,
					Body: []byte(record.Body),
				})
			}
			return received, nil
		}}
	})
}

func TestAPayloadIsLoggedOnlyIfWanted(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{"log:": false, "log:?body=true": true} {
		var out bytes.Buffer
		s, err := open(t, address, &out)
		if err != nil {
			t.Fatal(err)
		}
		e := publisher.Event{Topic: "orders", Event: event.Event{
			ID: uuid.New(), Type: "noted", CampaignID: "c", Seq: 7,
			Payload: []byte(`{"secret":1}`),
		}}
		if err := s.Publish(t.Context(), []publisher.Event{e}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), `"event_type":"noted"`) || strings.Contains(out.String(), "secret") != want {
			t.Errorf("%s logs %s", address, out.String())
		}
	}
}

func TestARecordHasTheLevelThatIsSet(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]string{"": `"level":"INFO"`, "warn": `"level":"WARN"`, "debug": ""} {
		var out bytes.Buffer
		s, err := open(t, "log:?level="+level, &out)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Publish(t.Context(), []publisher.Event{{}}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) || (want == "") != (out.Len() == 0) {
			t.Errorf("level %q logs %s", level, out.String())
		}
	}
}

func TestBadSettingsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"log:?level=loud": `level is "loud": it must be debug, info, warn or error`,
		"log://host/path": `the URL names "host/path", and a log has no address: write "log:"`,
		"log:?lvl=info":   `the URL has a parameter "lvl": it may have level, body`,
	} {
		if _, err := open(t, address, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", address, err)
		}
	}
}
