package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/sink/nats"
	"github.com/tidemark-go/tidemark/pkg/worker"
)

// The environment variables of the processes.
const (
	roleEnv     = "DELIVERY_ROLE"
	ordersEnv   = "DELIVERY_ORDERS"
	paceEnv     = "DELIVERY_PACE"
	brokerEnv   = "DELIVERY_BROKER"
	databaseEnv = "TIDEMARK_DATABASE_URL" // of the process's service
)

// The roles of the processes.
const (
	shopRole    = "shop"
	workerRole  = "worker"
	billingRole = "billing"
)

// settings are the settings of a process.
type settings struct {
	url, broker string
	orders      int
	pace        time.Duration // approximate pause between orders
}

// play runs the process of one role.
func play(ctx context.Context, role string) (code int) {
	go func() { // exits when the parent process is gone, however it ended
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	s := settings{url: os.Getenv(databaseEnv), broker: os.Getenv(brokerEnv)}
	orders, err := strconv.Atoi(os.Getenv(ordersEnv))
	pace, paceErr := time.ParseDuration(os.Getenv(paceEnv))
	s.orders, s.pace, err = orders, pace, errors.Join(err, paceErr)
	switch role {
	case shopRole:
		err = errors.Join(err, shop(ctx, s))
	case billingRole:
		err = errors.Join(err, billing(ctx, s))
	case workerRole:
		return worker.Main(worker.Options{Sinks: []publisher.Kind{nats.Kind()}})
	default:
		err = fmt.Errorf("there is no role %q", role)
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		return 1
	}
	return 0
}

// process is a child process that is restarted after each kill.
type process struct {
	role  string
	env   []string
	cmd   *exec.Cmd
	stdin io.Closer
	log   bytes.Buffer // complete once ended is closed
	ended chan struct{}
	err   error // of the process, once ended is closed
}

func (p *process) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p.cmd, p.ended = exec.Command(self), make(chan struct{})
	p.log.Reset()
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), p.env...), &p.log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start the %s: %w", p.role, err)
	}
	cmd, ended := p.cmd, p.ended
	go func() {
		p.err = cmd.Wait()
		close(ended)
	}()
	return nil
}

// running reports whether the process has not ended by itself.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// kill sends SIGKILL.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended
	_ = p.stdin.Close()
}

// stop asks the process to end, and kills it after 20 s.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
	}
	p.kill()
}
