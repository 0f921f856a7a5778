package lake_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/adapters/lake"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) {
	if child := children()[os.Getenv("TIDEMARK_TEST_LAKE_CHILD")]; child != nil {
		os.Exit(child())
	}
	pgtest.Main(m)
}

func open(t *testing.T, cfg lake.Config) *lake.Sink {
	t.Helper()
	sink, err := lake.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestLakeKeepsTheRulesOfSinks(t *testing.T) {
	t.Parallel()
	publishertest.Run(t, publisher.Encoder{}, func(t *testing.T) publishertest.Target {
		root := filepath.Join(t.TempDir(), "events")
		mkdir(t, root)
		rename := func(from, to string) {
			if err := os.Rename(from, to); err != nil {
				t.Error(err)
			}
		}
		return publishertest.Target{
			Sink:   open(t, lake.Config{Path: root}),
			Poison: func(e *publisher.Event) { e.Type = strings.Repeat("/", 100) },
			Stop: func() (start func()) {
				rename(root, root+".away")
				return func() { rename(root+".away", root) }
			},
			Received: func(context.Context) (received []publishertest.Received, err error) {
				events, err := reader{root}.events()
				for _, e := range events {
					received = append(received, publishertest.Received{
						EventID: e.ID, CampaignID: e.CampaignID, Body: publisher.Encoder{}.AppendBody(nil, &e),
					})
				}
				return received, err
			},
		}
	})
}

func TestAnEventIsInTheTableOnceHoweverOftenItIsSent(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	all := events(0, 300)
	first := open(t, lake.Config{Path: root})
	publish(t, first, all[:100])
	publish(t, first, all[50:150])                                         // partly a repeat
	publish(t, first, slices.Concat(all[200:250], all[:20], all[240:250])) // twice in a batch
	second := open(t, lake.Config{Path: root})
	publish(t, second, all[150:200]) // later than others by position, as after a resolved failure
	publish(t, second, all[100:300])
	publish(t, first, all)
	exactlyOnce(t, root, all)

	// A journal that is restored from a backup gives a position to another event.
	other := all[299]
	other.ID = uuid.New()
	publish(t, first, []publisher.Event{other})
	publish(t, second, []publisher.Event{other})
	exactlyOnce(t, root, append(all, other))
}

func TestAnEntryOfAnotherSinkIsReadBeforeTheBatchIsDecidedAgain(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	all := events(0, 400)
	var gaveUp atomic.Int32
	var writers sync.WaitGroup
	for range 2 {
		sink := open(t, lake.Config{Path: root})
		writers.Go(func() {
			for batch := range slices.Chunk(all, 10) {
				err := sink.Publish(t.Context(), batch)
				for err != nil && strings.Contains(err.Error(), "in a row") {
					gaveUp.Add(1)
					err = sink.Publish(t.Context(), batch)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	exactlyOnce(t, root, all)
	if n := gaveUp.Load(); n > 10 {
		t.Errorf("a sink has given up %d times", n)
	}
}

func strange() []string {
	return []string{
		"plain", "with space", "a/b", "../../etc", "..", ".", "%2F", "a=b", `quo"te's`, "zażółć", "日本", "new\nline", "a:b?c*[d]{e}^f\\g#h",
		"__HIVE_DEFAULT_PARTITION__", "NULL", "null", "NaN", "7", "day=1/type=2", " ", "+", "a+b&c", "~", "😀",
	}
}

func TestATypeMayHaveAnyCharacters(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "a b%20ż")
	mkdir(t, root)
	var all []publisher.Event
	for i, name := range strange() {
		e := events(i, 1)[0]
		e.Type = name
		all = append(all, e)
	}
	publish(t, open(t, lake.Config{Path: root}), all)
	exactlyOnce(t, root, all)
	publish(t, open(t, lake.Config{Path: root}), all)
	exactlyOnce(t, root, all)
	if n := len(glob(t, root)); n != len(all) {
		t.Errorf("there are %d files in folders of the table, want %d", n, len(all))
	}
}

func outage(t *testing.T, err error, want string) {
	t.Helper()
	var failed *publisher.BatchError
	if err == nil || errors.As(err, &failed) || fmt.Sprintf("%T", err) != fmt.Sprintf("%T", publisher.Outage(errors.New("down"))) {
		t.Errorf("got %v, which is no outage", err)
	} else if !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want it to say %q", err, want)
	}
}

func TestWhatIsWrongWithTheFolderIsNamed(t *testing.T) {
	t.Parallel()
	entry := func(root string, version int) string {
		return filepath.Join(root, "_delta_log", fmt.Sprintf("%020d.json", version))
	}
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		harm         func(root string)
		running, new string // what a running sink says, and a new one
	}{
		"an entry is missing": {
			func(root string) { _ = os.Remove(entry(root, 1)) }, "", "00001.json is missing: restore it, or name a new folder",
		},
		"the last entry is missing": {func(root string) { _ = os.Remove(entry(root, 3)) }, "00003.json is gone: restore", ""},
		"an entry is cut":           {func(root string) { _ = os.Truncate(entry(root, 3), 20) }, "00003.json has changed", "00003.json: it is damaged"},
		"an entry is empty":         {func(root string) { _ = os.Truncate(entry(root, 2), 0) }, "", "00002.json: it is empty"},
		"the folder is empty": {
			func(root string) { _ = os.RemoveAll(root); _ = os.Mkdir(root, 0o755) }, "00003.json is gone", "",
		},
		"the folder is gone": {func(root string) { _ = os.RemoveAll(root) }, "create it, or mount its disk", "create it, or mount its disk"},
		"the folder is a file": {
			func(root string) { _ = os.RemoveAll(root); write(root, "") }, "not a directory", "is no folder",
		},
		"a table of a later protocol": {
			func(root string) { write(entry(root, 4), `{"protocol":{"minReaderVersion":3,"minWriterVersion":7}}`) },
			"00004.json: the table needs reader version 3", "00004.json: the table needs reader version 3",
		},
		"another table": {
			func(root string) { write(entry(root, 4), `{"metaData":{"schemaString":"{}","partitionColumns":[]}}`) },
			"00004.json: the table has other columns", "00004.json: the table has other columns",
		},
		"a data file is gone": {
			func(root string) { _ = os.RemoveAll(filepath.Join(root, "day=2026-11-26")) }, "day=2026-11-26/type=", "no such file",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "events")
			mkdir(t, root)
			all, sink := events(0, 50), open(t, lake.Config{Path: root})
			for batch := range slices.Chunk(all[:40], 10) {
				publish(t, sink, batch)
			}
			c.harm(root)
			for _, try := range []struct {
				sink *lake.Sink
				want string
			}{{sink, c.running}, {open(t, lake.Config{Path: root}), c.new}} {
				if err := try.sink.Publish(t.Context(), all); try.want != "" {
					outage(t, err, try.want)
				} else if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestAFolderIsNeverCreated(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "events")
	sink := open(t, lake.Config{Path: root})
	outage(t, sink.Publish(t.Context(), events(0, 1)), "create it, or mount its disk")
	mkdir(t, root)
	if err := sink.Healthy(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.Remove(root); err != nil {
		t.Fatal(err)
	}
	outage(t, sink.Publish(t.Context(), events(0, 1)), "create it, or mount its disk")
	mkdir(t, root)
	publish(t, sink, events(0, 1))
	exactlyOnce(t, root, events(0, 1))
}

func TestAURLIsEnough(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	u, err := url.Parse("lake://" + root + "?keep=48h&no_merge=true")
	if err != nil {
		t.Fatal(err)
	}
	sink, err := lake.Kind().Open(publisher.Settings{Publisher: "archive", URL: u, Decode: func(any) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, sink, events(0, 10))
	exactlyOnce(t, root, events(0, 10))
	if sink.Name() != "archive" {
		t.Errorf("its name is %s", sink.Name())
	}
}

func TestBadSettingsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"lake:":                "path is missing: write lake:///path/to/folder",
		"lake://data/events":   `the URL names the host "data": write lake:///path/to/folder, with three slashes`,
		"lake:data":            `the URL names the host "data"`,
		"lake:///x?path=y":     `path is "y": it must begin with /`,
		"lake:///x?keep=5s":    "keep is 5s: it must be at least 1m0s",
		"lake:///x?no_merge=2": `no_merge is "2" in the URL: it must be true or false`,
		"lake:///x?kep=5s":     `the URL has a parameter "kep": it may have path, keep, no_merge`,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		_, err = lake.Kind().Open(publisher.Settings{URL: u, Decode: func(any) error { return nil }})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", address, err)
		}
	}
}

// eventually waits until condition returns true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if <-tick.C; time.Now().After(deadline) {
			t.Fatalf("it did not come to be that %s", what)
		}
	}
}
