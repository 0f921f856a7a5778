package ndjson_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/ndjson"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func importAll(t *testing.T, pool *pgxpool.Pool, text string, cfg ndjson.ImportConfig) ndjson.Imported {
	t.Helper()
	done, err := ndjson.Import(t.Context(), pool, strings.NewReader(text), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func exportAll(t *testing.T, pool *pgxpool.Pool, cfg ndjson.ExportConfig) string {
	t.Helper()
	var out bytes.Buffer
	if _, err := ndjson.Export(t.Context(), pool, &out, cfg); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// types returns the event types of a campaign in order of seq.
func types(t *testing.T, pool *pgxpool.Pool, campaign string) []string {
	t.Helper()
	var all []string
	for e, err := range journal.ReadCampaign(t.Context(), pool, campaign, 0) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Type)
	}
	return all
}

func requireImported(t *testing.T, got, want ndjson.Imported) {
	t.Helper()
	if got != want {
		t.Errorf("the import answers %+v, want %+v", got, want)
	}
}

// lines returns n lines without ids that alternate between campaigns.
func lines(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "{\"campaign_id\":\"c%d\",\"type\":\"counted\",\"payload\":{\"n\":%d}}\n", i/10%7, i)
	}
	return text.String()
}

func TestExport(t *testing.T) {
	t.Parallel()

	t.Run("is what import makes the same journal of", func(t *testing.T) {
		t.Parallel()
		source, target := pgtest.New(t), pgtest.New(t)
		at := time.Date(2024, 2, 29, 23, 59, 59, 123456000, time.FixedZone("", 3600))
		full := event.Event{
			Type: "full", Version: 3, Intent: event.ReplayOnly, AggregateType: "a", AggregateID: "<1>",
			Actor: "Zoë \"Z\" \\ \u2028 🐳", Tags: []string{"k=v", "x"},
			Payload: []byte(`{"text":"<&>\n\u0001","big":123456789012345678901234567890,"small":1.50,"null":null,"list":[{},[]]}`), Metadata: []byte(`{"m":{}}`), OccurredAt: at,
		}
		err := pgx.BeginFunc(t.Context(), source, func(tx pgx.Tx) error {
			for n := range 300 { // more than a page
				full.Payload = fmt.Appendf(nil,
					`{"n":%d,"text":"<&>\n\u0001","big":123456789012345678901234567890,"small":1.50,"null":null,"list":[{},[]]}`, n)
				_, err := journal.Journal{}.AppendAll(t.Context(), tx,
					journal.Batch{CampaignID: "b", Events: []event.Event{{Type: "bare"}, full}},
					journal.Batch{CampaignID: "a\n", Events: []event.Event{{Type: "audit", Intent: event.AuditOnly}}},
				)
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		first := exportAll(t, source, ndjson.ExportConfig{})
		requireImported(t, importAll(t, target, first, ndjson.ImportConfig{}), ndjson.Imported{Appended: 900})
		if second := exportAll(t, target, ndjson.ExportConfig{}); second != first {
			t.Errorf("the second export differs from the first:\n%.500s\n%.500s", second, first)
		}
		requireImported(t, importAll(t, source, first, ndjson.ImportConfig{}), ndjson.Imported{Duplicates: 900})
	})

	t.Run("tells of erasures", func(t *testing.T) {
		t.Parallel()
		source, target := pgtest.New(t), pgtest.New(t)
		importAll(t, source, `{"campaign_id":"a","type":"x","tags":["who=ann"],"payload":{"name":"ann"}}
			{"campaign_id":"b","type":"y"}
			{"campaign_id":"a","type":"x","tags":["who=bob"]}`, ndjson.ImportConfig{})
		r := erasure.Request{Subjects: []string{"who=ann"}, By: "anna", Reason: "a test"}
		if _, err := erasure.Erase(t.Context(), source, r); err != nil {
			t.Fatal(err)
		}
		first := exportAll(t, source, ndjson.ExportConfig{})
		requireImported(t, importAll(t, target, first, ndjson.ImportConfig{}), ndjson.Imported{Appended: 4})
		if second := exportAll(t, target, ndjson.ExportConfig{}); second != first {
			t.Errorf("the second export differs from the first:\n%s\n%s", second, first)
		}
		requireImported(t, importAll(t, source, first, ndjson.ImportConfig{}), ndjson.Imported{Duplicates: 4})
		requireImported(t, importAll(t, target, first, ndjson.ImportConfig{}), ndjson.Imported{Duplicates: 4})
		for e, err := range journal.ReadCampaign(t.Context(), target, "a", 0) {
			if err != nil || e.Erased() != (e.Seq == 1) {
				t.Errorf("event %d is erased: %t, %v", e.Seq, e.Erased(), err)
			}
		}
		var notices string
		if err := target.QueryRow(t.Context(), `SELECT string_agg(concat_ws(' ', j.campaign_id, j.seq, n.event_type), ', ')
			FROM tidemark.erasure_notices n JOIN tidemark.journal j USING (position)`).Scan(&notices); err != nil || notices != "a 3 x" {
			t.Errorf("the notices are %s, %v", notices, err)
		}
		for _, forged := range []string{
			`{"campaign_id":"c","type":"events_erased"}`,
			`{"campaign_id":"c","type":"events_erased","intent":"audit_only","payload":{"erasure":1,"seqs":[1],"more":1}}`,
			`{"campaign_id":"c","type":"events_erased","intent":"audit_only","payload":{"erasure":1,"seqs":["x"]}}`,
			`{"campaign_id":"c","type":"x","metadata":{"$archived":{}}}`,
			`{"campaign_id":"c","type":"x","metadata":{"\u0024erased":"me"}}`,
		} {
			_, err := ndjson.Import(t.Context(), target, strings.NewReader(forged), ndjson.ImportConfig{})
			if bad, ok := errors.AsType[*ndjson.LineError](err); !ok || !strings.Contains(bad.Error(), "tidemark events export") {
				t.Errorf("%s: %v", forged, err)
			}
		}
	})

	t.Run("chooses by campaign type and position", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		importAll(t, pool, `{"campaign_id":"a","type":"x"}
			{"campaign_id":"b","type":"x"}
			{"campaign_id":"a","type":"y"}
			{"campaign_id":"a","type":"x"}`, ndjson.ImportConfig{})
		var out bytes.Buffer
		start, err := ndjson.Export(t.Context(), pool, &out, ndjson.ExportConfig{})
		if err != nil {
			t.Fatal(err)
		}
		importAll(t, pool, `{"campaign_id":"a","type":"x"}
			{"campaign_id":"b","type":"z"}`, ndjson.ImportConfig{Source: "later"})
		for _, c := range []struct {
			cfg  ndjson.ExportConfig
			want int
		}{
			{ndjson.ExportConfig{}, 6},
			{ndjson.ExportConfig{CampaignID: "a"}, 4},
			{ndjson.ExportConfig{CampaignID: "nobody"}, 0},
			{ndjson.ExportConfig{Types: []string{"x"}}, 4},
			{ndjson.ExportConfig{Types: []string{"y", "z"}}, 2},
			{ndjson.ExportConfig{CampaignID: "a", Types: []string{"x"}}, 3},
			{ndjson.ExportConfig{After: start.Position}, 2},
			{ndjson.ExportConfig{CampaignID: "a", After: start.Position}, 1},
			{ndjson.ExportConfig{Types: []string{"none"}}, 0},
		} {
			if got := strings.Count(exportAll(t, pool, c.cfg), "\n"); got != c.want {
				t.Errorf("%+v chooses %d events, want %d", c.cfg, got, c.want)
			}
		}
	})

	t.Run("answers the error of a pipe that nobody reads", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		importAll(t, pool, lines(3000), ndjson.ImportConfig{})
		_, err := ndjson.Export(t.Context(), pool, closedPipe{}, ndjson.ExportConfig{})
		if !errors.Is(err, syscall.EPIPE) {
			t.Errorf("the export answered %v, want %v", err, syscall.EPIPE)
		}
	})
}

type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestImport(t *testing.T) {
	t.Parallel()

	t.Run("keeps the order of the input in the whole journal", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		requireImported(t, importAll(t, pool, lines(2500), ndjson.ImportConfig{}), ndjson.Imported{Appended: 2500})
		n := 0
		for e, err := range journal.ReadAll(t.Context(), pool, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf(`{"n": %d}`, n); string(e.Payload) != want {
				t.Fatalf("event number %d of the journal says %s", n, e.Payload)
			}
			n++
		}
	})

	t.Run("appends nothing the second time", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		importAll(t, pool, lines(1500), ndjson.ImportConfig{Source: "s"})
		requireImported(t, importAll(t, pool, lines(1800), ndjson.ImportConfig{Source: "s"}),
			ndjson.Imported{Appended: 300, Duplicates: 1500})
		requireImported(t, importAll(t, pool, lines(10), ndjson.ImportConfig{Source: "another"}),
			ndjson.Imported{Appended: 10})
	})

	t.Run("tells equal lines apart by their number", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		text := strings.Repeat("{\"campaign_id\":\"c\",\"type\":\"tick\"}\n", 3)
		requireImported(t, importAll(t, pool, text, ndjson.ImportConfig{}), ndjson.Imported{Appended: 3})
	})

	t.Run("takes blank lines a byte order mark and foreign line ends", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		text := "\xef\xbb\xbf{\"campaign_id\":\"c\",\"type\":\"one\",\"payload\":null,\"seq\":7,\"position\":9,\"recorded_at\":\"x\"}\r\n\r\n  \n\n{\"campaign_id\":\"c\",\"type\":\"two\"}"
		requireImported(t, importAll(t, pool, text, ndjson.ImportConfig{}), ndjson.Imported{Appended: 2})
		if got := types(t, pool, "c"); !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("the campaign holds %q", got)
		}
	})

	t.Run("says which line is bad and why", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		const id = `"id":"01900000-0000-7000-8000-000000000000"`
		bad := []struct{ text, why string }{
			{`not json`, "is not JSON"},
			{`{"campaign_id":"c","type":"x"`, "incomplete JSON"},
			{`{"campaign_id":"c","type":"x","type":"y"}`, `has /type twice`},
			{`{"campaign_id":"c","type":"x","Campaign_ID":"d"}`, `unknown field "Campaign_ID"`},
			{`{"campaign_id":"c","type":"x","payload":{"a":1,"b":2,"a":3}}`, `has /payload/a twice`},
			{`{"campaign_id":"c","type":"x","payload":{"a":1,"\u0061":3}}`, `has /payload/a twice`},
			{
				`{"campaign_id":"c","type":"x","payload":{"list":[1,{"a":{"b":1}},{"a":{"b":1,"c":[],"b":2}}]}}`,
				`has /payload/list/2/a/b twice`,
			},
			{`{"campaign_id":"c","type":"x","payload":{},"metadata":{"a":{},"a":{}}}`, `has /metadata/a twice`},
			{`["c"]`, "is not a JSON object"},
			{`{"campaign_id":"c","type":"x"} {}`, "after top-level value"},
			{`{"type":"x"}`, `no "campaign_id"`},
			{`{"campaign_id":"c"}`, "type"},
			{`{"campaign_id":"c","type":"x","payloud":{}}`, `unknown field "payloud"`},
			{`{"campaign_id":"c","type":7}`, `JSON number as "type"`},
			{`{"campaign_id":"c","type":"x","id":"not-an-id"}`, "UUID"},
			{`{"campaign_id":"c","type":"x","occurred_at":"yesterday"}`, "yesterday"},
			{`{"campaign_id":"c","type":"x","payload":[1]}`, "payload"},
			{`{"campaign_id":"c","type":"x","payload":{"a":"\u0000"}}`, "Unicode"},
			{`{"campaign_id":"c","type":"x","payload":{"a":"\ud800"}}`, "surrogate"},
			{`{"campaign_id":"c","type":"x","payload":{"a":1e999999}}`, "numeric"},
			{`{"campaign_id":"c","type":"\ud800"}`, "surrogate"},
			{"{\"campaign_id\":\"c\",\"type\":\"\xff\"}", "UTF-8"},
			{`{"campaign_id":"c","type":"x","intent":"unheard_of"}`, "intent"},
			{`{"campaign_id":"c","type":"other",` + id + `}`, "id"},
			{`{"campaign_id":"c","type":"x","actor":"` + strings.Repeat("long", 2<<20) + `"}`, "longer than 8388608 bytes"},
		}
		good := fmt.Sprintf("{\"campaign_id\":\"c\",\"type\":\"good\",%s}\n", id)
		for _, b := range bad {
			text := good + b.text + "\n" + `{"campaign_id":"c","type":"after"}`
			_, err := ndjson.Import(t.Context(), pool, strings.NewReader(text), ndjson.ImportConfig{})
			var line *ndjson.LineError
			if !errors.As(err, &line) || line.Number != 2 || !strings.Contains(line.Error(), b.why) {
				t.Errorf("%.100q is refused with %v, want line 2, because of %q", b.text, err, b.why)
			}
		}
		if got := types(t, pool, "c"); !slices.Equal(got, []string{"good"}) {
			t.Errorf("the campaign holds %q", got)
		}
	})

	t.Run("stops at the first bad line after appending what is before it", func(t *testing.T) {
		t.Parallel()
		for _, bad := range []string{"{]", `{"campaign_id":"c","type":"bad","payload":7}`} {
			pool := pgtest.New(t)
			text := strings.Repeat("{\"campaign_id\":\"c\",\"type\":\"good\"}\n", 1234) + bad + "\n" +
				`{"campaign_id":"c","type":"after"}` + "\n"
			done, err := ndjson.Import(t.Context(), pool, strings.NewReader(text), ndjson.ImportConfig{})
			var line *ndjson.LineError
			if !errors.As(err, &line) || line.Number != 1235 {
				t.Errorf("the import answered %v, want an error for line 1235", err)
			}
			requireImported(t, done, ndjson.Imported{Appended: 1234})
			mended := strings.Replace(text, bad, `{"campaign_id":"c","type":"mended"}`, 1)
			requireImported(t, importAll(t, pool, mended, ndjson.ImportConfig{}), ndjson.Imported{Appended: 2, Duplicates: 1234})
			if got := types(t, pool, "c"); len(got) != 1236 || got[1234] != "mended" || got[1235] != "after" {
				t.Errorf("the campaign holds %d events and ends with %q", len(got), got[len(got)-2:])
			}
		}
	})

	t.Run("finds its way past events that came with other lines", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		line := func(n int) string {
			return fmt.Sprintf("{\"campaign_id\":\"c\",\"type\":\"x\",\"id\":\"01900000-0000-7000-8000-%012d\"}\n", n)
		}
		var some, all strings.Builder
		for n := range 1500 {
			if n%100 < 3 {
				some.WriteString(line(n))
			}
			all.WriteString(line(n))
		}
		importAll(t, pool, some.String(), ndjson.ImportConfig{})
		requireImported(t, importAll(t, pool, all.String(), ndjson.ImportConfig{}),
			ndjson.Imported{Appended: 1455, Duplicates: 45})
	})

	t.Run("goes on after an input that broke off", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		text := lines(4000)
		broken := io.MultiReader(strings.NewReader(text[:len(text)/2]), failingReader{})
		if _, err := ndjson.Import(t.Context(), pool, broken, ndjson.ImportConfig{}); !errors.Is(err, io.ErrClosedPipe) {
			t.Fatalf("the import answered %v, want %v", err, io.ErrClosedPipe)
		}
		done := importAll(t, pool, text, ndjson.ImportConfig{})
		if done.Duplicates == 0 || done.Appended == 0 || done.Appended+done.Duplicates != 4000 {
			t.Errorf("the second import answers %+v", done)
		}
	})

	t.Run("stops when it is cancelled, at the end of a transaction", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		text := lines(3000)
		// The reader and the appender end independently, so either can end first.
		for turn := range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cfg := ndjson.ImportConfig{Progress: func(int64, int64) { cancel(); runtime.Gosched() }}
			done, err := ndjson.Import(ctx, pool, strings.NewReader(text), cfg)
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("the import answered %v, want %v", err, context.Canceled)
			}
			want := ndjson.Imported{Duplicates: 1000}
			if turn == 0 {
				want = ndjson.Imported{Appended: 1000}
			}
			requireImported(t, done, want)
		}
	})
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }
