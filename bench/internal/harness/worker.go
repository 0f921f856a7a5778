package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	workerProgram = "out/worker"
	workerLog     = "out/worker.log"
	lookEvery     = 100 * time.Millisecond
)

// Worker is a process of the stock worker with the SQL-file projection and default settings.
type Worker struct {
	process *exec.Cmd
	ended   chan error // its exit, once
}

// The folders of SQL files.
const (
	Campaigns = "internal/harness/projections"
	Across    = "internal/harness/across" // the same across campaigns
)

// StartWorker builds the stock worker and runs it on db, with a folder of SQL files.
func StartWorker(ctx context.Context, db *Database, files string) (*Worker, error) {
	return StartProgram(ctx, "./cmd/worker",
		"TIDEMARK_DATABASE_URL="+db.URL, "TIDEMARK_PROJECTIONS_DIR="+files, "TIDEMARK_HTTP_ADDR=off",
		"TIDEMARK_LOG_FORMAT=json")
}

// StartProgram builds a worker of this repository and runs it with settings in addition to the
// environment.
func StartProgram(ctx context.Context, pkg string, settings ...string) (*Worker, error) {
	program, err := filepath.Abs(workerProgram)
	if err != nil {
		return nil, fmt.Errorf("build the worker: %w", err)
	}
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", "..", "-o", program, pkg).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the worker: %w: %s", err, out)
	}
	return start(program, append(os.Environ(), settings...))
}

// Again runs the same program again.
func (w *Worker) Again() (*Worker, error) { return start(w.process.Path, w.process.Env) }

func start(program string, env []string) (*Worker, error) {
	log, err := os.Create(workerLog)
	if err != nil {
		return nil, fmt.Errorf("start the worker: %w", err)
	}
	defer log.Close()
	w := &Worker{process: exec.Command(program), ended: make(chan error, 1)}
	w.process.Env = env
	w.process.Stdout, w.process.Stderr = log, log
	if err := w.process.Start(); err != nil {
		return nil, fmt.Errorf("start the worker: %w", err)
	}
	go func() { w.ended <- w.process.Wait() }()
	return w, nil
}

// Stop asks the worker to exit and waits for it.
func (w *Worker) Stop() error {
	err := w.process.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	if err := errors.Join(err, <-w.ended); err != nil {
		return fmt.Errorf("the worker ended badly, see %s: %w", workerLog, err)
	}
	return nil
}

// Kill ends the worker at once and waits for its end.
func (w *Worker) Kill() error {
	err := w.process.Process.Kill()
	<-w.ended
	return err
}

// PeakMemory returns the worker's peak resident memory in bytes.
func (w *Worker) PeakMemory() (int64, error) { return w.memory("VmHWM:") }

// Memory returns the worker's resident memory in bytes.
func (w *Worker) Memory() (int64, error) { return w.memory("VmRSS:") }

func (w *Worker) memory(name string) (int64, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", w.process.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the worker's memory: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("read the worker's memory: no %s %w", name, lines.Err())
}

// Until waits until the query, which returns one boolean, returns true. It fails if the worker ends
// first.
func (w *Worker) Until(ctx context.Context, conn *pgx.Conn, query string, args ...any) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		var done bool
		switch err := conn.QueryRow(ctx, query, args...).Scan(&done); {
		case err != nil:
			return fmt.Errorf("wait for the worker: %w", err)
		case done:
			return nil
		}
		select {
		case <-look.C:
		case err := <-w.ended:
			w.ended <- err
			return fmt.Errorf("the worker ended too early, see %s: %w", workerLog, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
