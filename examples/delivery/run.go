package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// config configures a run.
type config struct {
	server string        // address of the server on which the databases are created
	orders int           // number to place
	kills  int           // number of kills of random processes
	every  time.Duration // approximate time between kills
	keep   bool          // keep the databases
	out    io.Writer
}

const (
	tick     = 50 * time.Millisecond
	patience = 2 * time.Minute // without progress, after which the run has failed
)

// publishers is the worker's configuration of publishers.
const publishers = `
topics:
  orders: {event_types: [order_placed]}
publishers:
  broker:
    topics: [orders]
    sink: {kind: nats, servers: ["%s"], subject: orders}
    batch_size: 20
`

// run starts everything, kills processes and compares the databases.
func run(ctx context.Context, cfg config) (right bool, err error) {
	if cfg.orders < 1 || cfg.kills < 0 || cfg.every < tick {
		return false,
			fmt.Errorf("%d orders, %d kills, one every %s: there is at least one order, no negative kill, and %s between kills",
				cfg.orders, cfg.kills, cfg.every, tick)
	}
	shop, billing, err := createServices(ctx, cfg.server)
	if err != nil {
		return false, err
	}
	defer func() {
		if !cfg.keep {
			err = errors.Join(err, shop.drop(ctx, cfg.server), billing.drop(ctx, cfg.server))
		}
	}()
	b, err := startBroker(ctx)
	if err != nil {
		return false, fmt.Errorf("start the broker: %w", err)
	}
	defer func() { err = errors.Join(err, b.close()) }()
	pace := time.Duration(cfg.kills) * cfg.every / time.Duration(cfg.orders)
	file := filepath.Join(b.dir, "publishers.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, publishers, b.server.Addr()), 0o600); err != nil {
		return false, err
	}
	processes := make([]*process, 0, 3)
	for _, part := range []struct {
		role string
		of   *service
	}{{shopRole, shop}, {workerRole, shop}, {billingRole, billing}} {
		p := &process{role: part.role, env: []string{
			roleEnv + "=" + part.role, ordersEnv + "=" + strconv.Itoa(cfg.orders), paceEnv + "=" + pace.String(),
			brokerEnv + "=" + b.address(), databaseEnv + "=" + part.of.url,
			"TIDEMARK_PUBLISHERS=" + file, "TIDEMARK_LEASE_TTL=1s", "TIDEMARK_HTTP_ADDR=off", "TIDEMARK_LOG_LEVEL=error",
		}}
		if err := p.start(); err != nil {
			return false, err
		}
		defer p.stop()
		processes = append(processes, p)
	}
	killed, err := disturb(ctx, shop, billing, cfg, processes)
	if err != nil {
		return false, err
	}
	return verify(ctx, shop, billing, cfg.orders, cfg.out, killed)
}

// disturb kills processes at random moments and restarts them. It returns when every order has an
// invoice and all kills are done, or when nothing has happened for as long as patience.
func disturb(ctx context.Context, shop, billing *service, cfg config, processes []*process) (killed int, err error) {
	next, last, progress := time.Now().Add(cfg.every), time.Now(), int64(-1)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		for _, p := range processes {
			if p.running() || p.role == shopRole && p.err == nil {
				continue
			}
			return killed, fmt.Errorf("the %s has ended by itself: %w\n%s", p.role, p.err, p.log.String())
		}
		var orders, invoiced, happened int64
		if err := shop.pool.QueryRow(ctx, "SELECT count(*) FROM delivery.orders").Scan(&orders); err != nil {
			return killed, err
		}
		if err := billing.pool.QueryRow(ctx,
			"SELECT (SELECT count(DISTINCT order_id) FROM delivery.invoices), (SELECT count(*) FROM "+
				"delivery.deliveries)").Scan(&invoiced, &happened); err != nil {
			return killed, err
		}
		if happened += orders; happened != progress {
			progress, last = happened, time.Now()
		}
		switch {
		case invoiced == int64(cfg.orders) && killed == cfg.kills, time.Since(last) > patience:
			return killed, nil
		case killed < cfg.kills && time.Now().After(next):
			p := processes[rand.IntN(len(processes))]
			if p.role == shopRole && orders == int64(cfg.orders) { // it has nothing left to do
				p = processes[1+rand.IntN(2)]
			}
			p.kill()
			if err := p.start(); err != nil {
				return killed, err
			}
			killed++
			next = time.Now().Add(cfg.every/2 + rand.N(cfg.every))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return killed, ctx.Err()
		}
	}
}
