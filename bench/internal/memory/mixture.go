package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/bench/internal/scale"
	"github.com/tidemark-go/tidemark/examples/tabletop"
	"github.com/tidemark-go/tidemark/internal/freeport"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

const (
	mixtureLasts  = 10 * time.Minute
	mixtureWarms  = 2 * time.Minute // memory must stay constant afterwards
	mixtureRate   = 200             // events a second
	mixtureLong   = 1400            // events of a campaign that users look back at
	mixtureLongs  = 5               // number of these campaigns
	mixtureLimit  = 150 << 20
	mixtureSteady = 1.10
)

// mixture runs a worker of the tabletop example with everything that a busy afternoon has:
// documents, a projection that fails ever more often, three publishers (one always fails, one parks
// events), users who read pages and look back in time, acts on many failed campaigns, and a
// rebuild.
type mixture struct {
	db     *harness.Database
	admin  string // address of the admin listener
	worker *harness.Worker
}

// MeasureMixture reads the worker's resident memory from the system once a second. It returns the
// maximum after two minutes, and that maximum relative to the median of the third minute.
func MeasureMixture(ctx context.Context, b *harness.Bench) ([]harness.Figure, error) {
	db, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Drop(context.WithoutCancel(ctx))
	m := &mixture{db: db}
	hooks := httptest.NewServer(http.HandlerFunc(answerHook))
	defer hooks.Close()
	if err := m.start(ctx, hooks.URL); err != nil {
		return nil, err
	}
	lasts, warms := mixtureLasts/time.Duration(b.Shrink), mixtureWarms/time.Duration(b.Shrink)
	samples, err := m.run(ctx, b, lasts)
	if err := errors.Join(err, m.worker.Stop()); err != nil {
		return nil, err
	}
	return mixtureFigures(samples, warms), nil
}

// answerHook always fails under /down, and permanently refuses the events of some campaigns under
// /picky.
func answerHook(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	switch campaign := r.Header.Get("Tidemark-Campaign-Id"); {
	case r.URL.Path == "/down":
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/picky" && crc32.ChecksumIEEE([]byte(campaign))%4 == 0:
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
}

func (m *mixture) start(ctx context.Context, hooks string) (err error) {
	publishers, err := filepath.Abs("out/mixture.yaml")
	if err != nil {
		return err
	}
	text := "topics:\n  all: {}\npublishers:\n"
	for _, name := range []string{"down", "picky", "fine"} {
		text += fmt.Sprintf("  %s:\n    topics: [all]\n    sink: {kind: webhook, url: %q, unsigned: true, allow_networks: "+
			"[127.0.0.0/8]}\n", name, hooks+"/"+name)
	}
	if err := os.WriteFile(publishers, []byte(text), 0o600); err != nil {
		return err
	}
	port, err := freeport.TCP(ctx)
	if err != nil {
		return err
	}
	m.admin = fmt.Sprintf("127.0.0.1:%d", port)
	m.worker, err = harness.StartProgram(ctx, "./examples/tabletop/cmd/worker",
		"TIDEMARK_DATABASE_URL="+m.db.URL, "TIDEMARK_PROJECTIONS_DIR=internal/memory/mixture",
		"TIDEMARK_PUBLISHERS="+publishers, "TIDEMARK_HTTP_ADDR=127.0.0.1:0",
		"TIDEMARK_ADMIN_ADDR="+m.admin, "TIDEMARK_ADMIN_ANONYMOUS=admin", "TIDEMARK_RETRY_ATTEMPTS=3",
		"TIDEMARK_LOG_FORMAT=json")
	return err
}

// run runs everything at once for the given time and returns the memory of each second.
func (m *mixture) run(ctx context.Context, b *harness.Bench, lasts time.Duration) ([]int64, error) {
	pool, err := m.db.Pool(ctx, 4)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	load, err := tabletop.NewLoad(tabletop.LoadConfig{
		Pool: pool, Rate: mixtureRate, Generator: tabletop.NewGenerator(tabletop.GeneratorConfig{Seed: 7, Campaigns: 300}),
	})
	if err != nil {
		return nil, err
	}
	if err := fillLong(ctx, pool); err != nil {
		return nil, err
	}
	g, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithTimeout(ctx, lasts)
	defer stop()
	g.Go(func() error { return load.Run(ctx) })
	for _, look := range []struct {
		every time.Duration
		path  func(turn int) string
	}{
		{500 * time.Millisecond, func(turn int) string { pages := scale.Pages(); return pages[turn%len(pages)] }},
		{time.Second, func(int) string {
			return "/campaign?id=" + longTale(rand.IntN(mixtureLongs)) + fmt.Sprint("&seq=", 1+rand.IntN(mixtureLong))
		}},
		{time.Second, func(turn int) string {
			return fmt.Sprintf("/api/v1/campaigns/%s/events?limit=100&after=%d", longTale(turn%mixtureLongs),
				rand.IntN(mixtureLong))
		}},
	} {
		g.Go(func() error {
			return m.every(ctx, look.every, func(turn int) error { return m.get(ctx, look.path(turn)) })
		})
	}
	g.Go(func() error { return m.every(ctx, 20*time.Second, func(int) error { return m.requeueAll(ctx) }) })
	g.Go(func() error {
		return m.every(ctx, lasts/3, func(turn int) error {
			if turn == 0 {
				return nil
			}
			return m.post(ctx, "/api/v1/projections/characters/rebuild",
				map[string]any{"reason": "bench", "with": map[string]any{}}, nil)
		})
	})
	var samples []int64
	g.Go(func() error {
		return m.every(ctx, time.Second, func(turn int) error {
			bytes, err := m.worker.Memory()
			if samples = append(samples, bytes); turn%15 == 0 {
				b.Logf("after %3d s %4d MiB, %d events appended", turn, bytes>>20, load.Appended())
			}
			return err
		})
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	return samples, nil
}

// every calls do at an interval until ctx ends.
func (m *mixture) every(ctx context.Context, interval time.Duration, do func(turn int) error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for turn := 0; ; turn++ {
		if err := do(turn); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func longTale(i int) string { return fmt.Sprintf("long-%d", i) }

// fillLong appends the campaigns that users look back at.
func fillLong(ctx context.Context, pool *pgxpool.Pool) error {
	for i := range mixtureLongs {
		id := longTale(i)
		events, err := longEvents(id)
		if err != nil {
			return err
		}
		if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(ctx, tx, id, journal.Any, events...)
			return err
		}); err != nil {
			return fmt.Errorf("append to campaign %s: %w", id, err)
		}
	}
	return nil
}

// longEvents returns events of a few characters who are hit and healed, with notes about them.
func longEvents(id string) ([]event.Event, error) {
	var events []event.Event
	var failed error
	add := func(kind, aggregate string, payload any) {
		encoded, err := json.Marshal(payload)
		failed = errors.Join(failed, err)
		events = append(events, event.Event{
			Type: kind, AggregateType: "character", AggregateID: aggregate,
			Payload: encoded,
		})
	}
	add(tabletop.CampaignCreatedType, id, tabletop.CampaignCreated{Name: id, System: "bench"})
	for n := range mixtureLong {
		who := fmt.Sprintf("character-%d", n%20)
		switch {
		case n < 20:
			add(tabletop.CharacterCreatedType, who, tabletop.CharacterCreated{
				ParticipantID: "p", Name: who, Class: "bard",
				MaxHitPoints: 40,
			})
		case n%3 == 0:
			add(tabletop.CharacterHealedType, who, tabletop.CharacterHealed{Amount: 5})
		default:
			add(tabletop.CharacterDamagedType, who, tabletop.CharacterDamaged{
				Amount: 3,
				Source: strings.Repeat("a goblin with a rusty spoon, ", 10),
			})
		}
	}
	return events, failed
}

// mixtureFigures ignores the time in which the worker warms up.
func mixtureFigures(samples []int64, warms time.Duration) []harness.Figure {
	seconds := int(warms / time.Second)
	most, early := slices.Max(samples[seconds:]), slices.Clone(samples[seconds:min(len(samples), seconds*3/2)])
	slices.Sort(early)
	steady := float64(early[len(early)/2])
	return []harness.Figure{
		harness.AtMost(1, harness.Figure{
			Name: "mixture_memory", Value: float64(most) / (1 << 20), Unit: "MiB", Ratio: float64(most) / mixtureLimit,
			To: fmt.Sprintf("%d MiB", mixtureLimit>>20),
		}),
		harness.AtMost(mixtureSteady, harness.Figure{
			Name: "mixture_growth", Value: (float64(most) - steady) / (1 << 20), Unit: "MiB", Ratio: float64(most) / steady,
			To: "the median of the third minute",
		}),
	}
}

func (m *mixture) get(ctx context.Context, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.admin+path, nil)
	if err != nil {
		return err
	}
	return m.send(request, nil)
}

// requeueAll requeues all dead campaigns, like an operator who believes that the fault is fixed.
func (m *mixture) requeueAll(ctx context.Context) error {
	const path = "/api/v1/failed/requeue"
	bulk := map[string]any{"projection": "debts", "status": []string{"dead"}, "dry_run": true}
	var preview struct {
		Detail struct {
			Confirm string `json:"confirm"`
		} `json:"detail"`
	}
	if err := m.post(ctx, path, map[string]any{"with": bulk}, &preview); err != nil {
		return err
	}
	if preview.Detail.Confirm == "" { // the worker has not registered its projections yet
		return nil
	}
	bulk["confirm"], bulk["dry_run"] = preview.Detail.Confirm, false
	return m.post(ctx, path, map[string]any{"reason": "bench", "with": bulk}, nil)
}

func (m *mixture) post(ctx context.Context, path string, body, answer any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.admin+path, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	return m.send(request, answer)
}

func (m *mixture) send(request *http.Request, answer any) error {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && answer != nil && response.StatusCode == http.StatusOK {
		err = json.Unmarshal(body, answer)
	}
	if response.StatusCode >= 500 {
		fmt.Fprintf(os.Stderr, "%s: %d %.200s\n", request.URL, response.StatusCode, body)
	}
	return err
}
