package matrix_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/retention"
	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// orderEnv turns the test binary into an operator's process, which does an order.
const orderEnv = "TIDEMARK_TEST_MATRIX"

// atOnce is how many worlds are alive at once. They wait for workers more than for a processor.
const atOnce = 6

// order is an act to do.
type order struct {
	Act       act
	URL       string
	Folder    string // of the archive
	By        string
	Campaigns []string
	Subjects  []string
	Events    []planted // to seal
	KillAt    int64     // of the statements and writes of objects; 0: never
}

// outcome is what an order has led to.
type outcome struct {
	Certificate *erasure.Certificate
	Report      archive.Report
	Error       string

	killed bool
	log    string
}

func TestMain(m *testing.M) {
	text := os.Getenv(orderEnv)
	if text == "" {
		flag.Parse()
		if err := flag.Set("test.parallel", strconv.Itoa(max(atOnce, runtime.GOMAXPROCS(0)))); err != nil {
			panic(err)
		}
		pgtest.Main(m)
		return
	}
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(o.do(context.Background()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// send has a process do an order.
func (o order) send(t *testing.T) (done outcome) {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), orderEnv+"="+string(text))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	done.log = stderr.String()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && o.KillAt > 0 {
		done.killed = true
		return done
	}
	if err == nil {
		err = json.Unmarshal(stdout.Bytes(), &done)
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", o.Act, err, done.log)
	}
	return done
}

// killer ends its process at a step: before a statement is sent, so also before a COMMIT and in a
// transaction, or before an object is written.
type killer struct {
	archive.Store
	at, steps atomic.Int64
}

func (k *killer) step() {
	if k.steps.Add(1) == k.at.Load() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (k *killer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	k.step()
	return ctx
}

func (*killer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (k *killer) Put(ctx context.Context, name string, content []byte) error {
	k.step()
	return k.Store.Put(ctx, name, content)
}

func (o order) do(ctx context.Context) (done outcome) {
	k := &killer{}
	k.at.Store(o.KillAt)
	folder, err := archive.NewFolder(o.Folder)
	if err != nil {
		return outcome{Error: err.Error()}
	}
	defer func() { _ = folder.Close() }()
	k.Store = folder
	cfg, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return outcome{Error: err.Error()}
	}
	session.Prepare(cfg)
	cfg.ConnConfig.Tracer = k
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return outcome{Error: err.Error()}
	}
	defer pool.Close()
	const reason = "the matrix"
	switch o.Act {
	case eraseWhole, erasePersonal:
		done.Certificate, err = erasure.Erase(ctx, pool, erasure.Request{
			Subjects: o.Subjects, Personal: o.Act == erasePersonal, Catalogue: types(), Archive: k, By: o.By, Reason: reason,
		})
	case archives:
		done.Report, err = archive.Run(ctx, pool, k, archive.Request{Campaigns: o.Campaigns, By: o.By, Reason: reason})
	case restore:
		done.Report, err = archive.Restore(ctx, pool, k, archive.RestoreRequest{Campaigns: o.Campaigns})
	case retains:
		r := retention.Runner{
			Pool: pool, Store: k, Owner: uuid.NewString(), Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
			Policies: []retention.Policy{{
				Name: "closed", ClosedFor: time.Millisecond, Types: []string{"closed"}, Every: time.Minute, Rate: 1_000_000,
			}},
		}
		err = r.Step(ctx)
	case seal:
		err = o.seal(ctx, pool)
	}
	if err != nil {
		done.Error = err.Error()
	}
	return done
}

// seal appends events with sealed fields, a transaction a campaign, and has the keys wrapped anew.
func (o order) seal(ctx context.Context, pool *pgxpool.Pool) error {
	var refused error
	for _, e := range o.Events {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{Catalogue: types().Sealed(wrapped("a", "b"))}.Append(ctx, tx, e.Campaign, journal.Any, e.event())
			return err
		})
		if err != nil {
			refused = errors.Join(refused, fmt.Errorf("%s: %w", e.Campaign, err))
		}
	}
	if _, err := wrapped("b", "a").Rotate(ctx, pool); err != nil {
		return err
	}
	return refused
}
