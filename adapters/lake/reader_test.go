package lake_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/parquet-go/parquet-go"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// reader reads a table as a stranger does who knows only Delta Lake's protocol.
type reader struct{ root string }

type line struct {
	Add *struct {
		Path            string            `json:"path" parquet:"path"`
		PartitionValues map[string]string `json:"partitionValues" parquet:"partitionValues"`
		Size            int64             `json:"size" parquet:"size"`
	} `json:"add" parquet:"add,optional"`
	Remove *struct {
		Path string `json:"path" parquet:"path"`
	} `json:"remove" parquet:"remove,optional"`
}

type stored struct {
	CampaignID    string    `parquet:"campaign_id"`
	Seq           int64     `parquet:"seq"`
	Position      int64     `parquet:"position"`
	EventID       string    `parquet:"event_id"`
	Version       int32     `parquet:"version"`
	Intent        string    `parquet:"intent"`
	AggregateType string    `parquet:"aggregate_type,optional"`
	AggregateID   string    `parquet:"aggregate_id,optional"`
	Actor         string    `parquet:"actor,optional"`
	Tags          []string  `parquet:"tags,list"`
	Payload       string    `parquet:"payload"`
	Metadata      string    `parquet:"metadata"`
	OccurredAt    time.Time `parquet:"occurred_at,timestamp(microsecond)"`
	RecordedAt    time.Time `parquet:"recorded_at,timestamp(microsecond)"`
}

// files returns the partition's values of each file that the log names, by the file's path on disk.
func (r reader) files() (files map[string]map[string]string, err error) {
	files = map[string]map[string]string{}
	apply := func(lines []line) error {
		for _, l := range lines {
			if l.Add != nil {
				name, err := url.PathUnescape(l.Add.Path)
				if err != nil {
					return err
				}
				info, err := os.Stat(filepath.Join(r.root, name))
				if err == nil && info.Size() != l.Add.Size {
					return fmt.Errorf("%s has %d bytes, the log says %d", name, info.Size(), l.Add.Size)
				}
				files[filepath.Join(r.root, name)] = l.Add.PartitionValues
			}
			if l.Remove != nil {
				name, err := url.PathUnescape(l.Remove.Path)
				if err != nil {
					return err
				}
				delete(files, filepath.Join(r.root, name))
			}
		}
		return nil
	}
	from := 0
	checkpoints, err := filepath.Glob(filepath.Join(r.root, "_delta_log", "*.checkpoint.parquet"))
	if err != nil {
		return nil, err
	}
	if len(checkpoints) > 0 {
		last := slices.Max(checkpoints)
		lines, err := parquet.ReadFile[line](last)
		if err != nil {
			return nil, err
		}
		if err := apply(lines); err != nil {
			return nil, err
		}
		if _, err := fmt.Sscanf(filepath.Base(last), "%020d", &from); err != nil {
			return nil, err
		}
		from++
	}
	for ; ; from++ {
		text, err := os.ReadFile(filepath.Join(r.root, "_delta_log", fmt.Sprintf("%020d.json", from)))
		if errors.Is(err, fs.ErrNotExist) {
			return files, nil
		} else if err != nil {
			return nil, err
		}
		for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
			var l line
			if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if err := apply([]line{l}); err != nil {
				return nil, err
			}
		}
	}
}

// events returns the events of the files that the log names, in order of position.
func (r reader) events() (events []publisher.Event, err error) {
	files, err := r.files()
	if err != nil {
		return nil, err
	}
	for name, values := range files {
		rows, err := parquet.ReadFile[stored](name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if !slices.IsSortedFunc(rows, func(a, b stored) int { return int(a.Position - b.Position) }) {
			return nil, fmt.Errorf("%s is not sorted", name)
		}
		for _, row := range rows {
			if day := row.RecordedAt.UTC().Format(time.DateOnly); values["day"] != day {
				return nil, fmt.Errorf("an event of %s is in %s", day, name)
			}
			events = append(events, publisher.Event{Event: event.Event{
				ID: uuid.MustParse(row.EventID), Type: values["type"], Version: int(row.Version), Intent: event.Intent(row.Intent),
				AggregateType: row.AggregateType, AggregateID: row.AggregateID, Actor: row.Actor, Tags: row.Tags,
				Payload: []byte(row.Payload), Metadata: []byte(row.Metadata), OccurredAt: row.OccurredAt,
				CampaignID: row.CampaignID, Seq: row.Seq, Position: row.Position, RecordedAt: row.RecordedAt,
			}})
		}
	}
	slices.SortStableFunc(events, func(a, b publisher.Event) int { return int(a.Position - b.Position) })
	return events, nil
}

// glob returns all data files that are there.
func glob(t *testing.T, root string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "day=*", "type=*", "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// exactlyOnce checks that the events are those of the table, each once, with all their columns.
func exactlyOnce(t *testing.T, root string, want []publisher.Event) {
	t.Helper()
	got, err := reader{root}.events()
	if err != nil {
		t.Fatal(err)
	}
	text := func(e publisher.Event) string {
		return fmt.Sprint(e.Position, e.CampaignID, e.Seq, e.ID, e.Type, e.Version, e.Intent, e.AggregateType, e.AggregateID,
			e.Actor, e.Tags, string(e.Payload), string(e.Metadata), e.OccurredAt.UTC(), e.RecordedAt.UTC())
	}
	count := map[string]int{}
	for _, e := range got {
		count[text(e)]++
	}
	for _, e := range want {
		count[text(e)]--
	}
	maps.DeleteFunc(count, func(_ string, n int) bool { return n == 0 })
	for what, n := range count {
		t.Errorf("%+d times too often: %s", n, what)
		if len(count) > 10 {
			t.Fatalf("%d events more or less often than once; the table has %d rows for %d events", len(count), len(got), len(want))
		}
	}
}

// globbedOnce checks that reading all files that are there gives each event once.
func globbedOnce(t *testing.T, root string, want int) {
	t.Helper()
	seen := map[string]int{}
	for _, name := range glob(t, root) {
		rows, err := parquet.ReadFile[stored](name)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			seen[row.CampaignID+" "+row.EventID]++
		}
	}
	for id, n := range seen {
		if n > 1 {
			t.Errorf("the files have event %s %d times", id, n)
		}
	}
	if len(seen) != want {
		t.Errorf("the files have %d events, want %d", len(seen), want)
	}
}

// events returns n events of some campaigns and types at positions after from.
func events(from, n int) (events []publisher.Event) {
	types := []string{"order_placed", "order_paid", "order_shipped"}
	for i := range n {
		p := int64(from + i + 1)
		at := time.Date(2026, 11, 26, 23, 59, 0, 123000, time.FixedZone("", 3600)).Add(time.Duration(p) * 10 * time.Second)
		events = append(events, publisher.Event{Topic: "all", Event: event.Event{
			ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, p)), Type: types[p%3], Version: 1, Intent: event.ProjectionAndReplay,
			Payload: fmt.Appendf(nil, `{"n": %d}`, p), Metadata: []byte(`{}`), OccurredAt: at, RecordedAt: at,
			CampaignID: fmt.Sprint("c", p%7), Seq: p/7 + 1, Position: p,
		}})
	}
	return events
}

func publish(t *testing.T, sink publisher.Sink, events []publisher.Event) {
	t.Helper()
	if err := sink.Publish(context.WithoutCancel(t.Context()), events); err != nil {
		t.Fatal(err)
	}
}
