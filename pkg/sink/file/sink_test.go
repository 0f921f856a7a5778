package file_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/pkg/sink/file"
	"github.com/tidemark-go/tidemark/test/support/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func open(t *testing.T, cfg file.Config) *file.Sink {
	t.Helper()
	opened, err := file.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := opened.(*file.Sink)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// lines answers the lines of the file and of those moved aside, oldest first.
func lines(t *testing.T, path string) (all []string) {
	t.Helper()
	names, err := filepath.Glob(strings.TrimSuffix(path, ".ndjson") + "-*.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, path) {
		content, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for line := range bytes.Lines(content) {
			all = append(all, string(line))
		}
	}
	return all
}

func TestFileKeepsTheRulesOfSinks(t *testing.T) {
	t.Parallel()
	for _, format := range []publisher.Format{
		publisher.FormatEnvelope, publisher.FormatCloudEvents,
		publisher.FormatCloudEventsStructured,
	} {
		t.Run(string(format), func(t *testing.T) {
			encoder := publisher.Encoder{Format: format}
			publishertest.Run(t, encoder, func(t *testing.T) publishertest.Target {
				path := filepath.Join(t.TempDir(), "events.ndjson")
				s := open(t, file.Config{Path: path, MaxSize: 2000, Encoder: encoder})
				return publishertest.Target{Sink: s, Received: func(context.Context) (received []publishertest.Received, _ error) {
					for _, line := range lines(t, path) {
						received = append(received, parse(t, line))
					}
					return received, nil
				}}
			})
		})
	}
}

func parse(t *testing.T, line string) publishertest.Received {
	t.Helper()
	var parsed struct {
		Attributes map[string]string
		Body       json.RawMessage
		ID         string
		Subject    string
	}
	if err := json.Unmarshal([]byte(line), &parsed); err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	if parsed.Attributes == nil {
		return publishertest.Received{
			EventID: uuid.MustParse(parsed.ID[:36]), CampaignID: parsed.Subject,
			Body: []byte(strings.TrimSuffix(line, "\n")),
		}
	}
	a := parsed.Attributes
	return publishertest.Received{
		EventID:    uuid.MustParse((a["event_id"] + a["ce-id"])[:36]),
		CampaignID: a["campaign_id"] + a["ce-subject"], Body: parsed.Body,
	}
}

func event(seq int64) publisher.Event {
	return publisher.Event{Topic: "t", Event: journal.Event{
		ID: uuid.New(), Type: "noted", CampaignID: "c", Seq: seq,
		Payload: []byte(`{}`),
	}}
}

func TestATornLastLineIsCutOff(t *testing.T) {
	t.Parallel()
	for _, torn := range []string{`{"half": `, strings.Repeat("x", 200_000)} {
		path := filepath.Join(t.TempDir(), "events.ndjson")
		if err := os.WriteFile(path, []byte("{}\n"+torn), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := open(t, file.Config{Path: path}).Publish(t.Context(), []publisher.Event{event(1)}); err != nil {
			t.Fatal(err)
		}
		if got := lines(t, path); len(got) != 2 || got[0] != "{}\n" || parse(t, got[1]).CampaignID != "c" {
			t.Errorf("the lines are %q", got)
		}
	}
}

func TestAFileIsMovedAsideBySizeAndByAge(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]file.Config{"by size": {MaxSize: 500}, "by age": {MaxAge: time.Nanosecond}} {
		cfg.Path = filepath.Join(t.TempDir(), "events.ndjson")
		s := open(t, cfg)
		for seq := range int64(4) {
			if err := s.Publish(t.Context(), []publisher.Event{event(seq + 1)}); err != nil {
				t.Fatal(err)
			}
		}
		aside, err := filepath.Glob(filepath.Join(filepath.Dir(cfg.Path), "events-*Z.ndjson"))
		if err != nil || len(aside) != 3 {
			t.Errorf("%s: %d files were moved aside, %v", name, len(aside), err)
		}
		for i, line := range lines(t, cfg.Path) {
			if want := fmt.Sprintf(`"seq":"%d"`, i+1); !strings.Contains(line, want) {
				t.Errorf("%s: line %d is %s", name, i, line)
			}
		}
	}
}

func TestWhatCannotBeWrittenIsAnErrorOfTheSink(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := open(t, file.Config{Path: filepath.Join(folder, "no", "events.ndjson")})
	if err := s.Publish(t.Context(), []publisher.Event{event(1)}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := s.Healthy(t.Context()); err == nil {
		t.Error("it says that it is healthy")
	}
	if err := os.Mkdir(filepath.Join(folder, "no"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Publish(t.Context(), []publisher.Event{event(1)}); err != nil {
		t.Error(err)
	}
	if _, err := file.New(file.Config{Path: "", MaxSize: -1, Encoder: publisher.Encoder{Format: "xml"}}); err == nil ||
		!strings.Contains(err.Error(), "path is missing") || !strings.Contains(err.Error(), `"xml"`) ||
		!strings.Contains(err.Error(), "max_size is -1") {
		t.Errorf("got %v", err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// The file is there and opens, so that nothing but the mark tells that no event is at fault.
func TestADiskThatIsFullIsNoEventsFault(t *testing.T) {
	t.Parallel()
	s := open(t, file.Config{Path: "-", Stdout: full{}})
	if err := s.Publish(t.Context(), []publisher.Event{event(1)}); !errors.Is(err, syscall.ENOSPC) ||
		fmt.Sprintf("%T", err) != fmt.Sprintf("%T", publisher.Outage(errors.New("down"))) {
		t.Errorf("got %T, %v", err, err)
	}
	if err := s.Healthy(t.Context()); err != nil {
		t.Errorf("its health is %v", err)
	}
}

func TestStandardOutputGetsLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := open(t, file.Config{Path: "-", Stdout: &out, Encoder: publisher.Encoder{Format: publisher.FormatRaw}})
	if err := s.Publish(t.Context(), []publisher.Event{event(1), event(2)}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "{}\n{}\n" {
		t.Errorf("got %q", out.String())
	}
}
