// Package erasures measures whether erased values are left anywhere.
package erasures

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/erasure"
)

const (
	subjects    = 10_000
	erasedOf    = 10 // one of so many subjects is erased
	calls       = 20 // with one subject each, before the call with all others
	valuesEach  = 4  // of a subject
	erasesIn    = 10 * time.Minute
	workers     = 2
	projections = "internal/erasures/projections"
)

// planted has what each value of subject N looks like.
var planted = regexp.MustCompile(`mail([0-9]{6})@example|\+4930([0-9]{6})\b|Name([0-9]{6})|cust([0-9]{6})`)

const (
	// queryAppend appends three events of each subject, and a fourth of one in twenty, whose handlers fail.
	queryAppend = `WITH people AS (SELECT i, lpad(i::text, 6, '0') AS n FROM generate_series($1::int, $2::int) i),
		customers AS (SELECT i, n, jsonb_build_object('id', 'cust' || n, 'name', 'Name' || n, 'email',
			'mail' || n || '@example.com', 'phones', jsonb_build_array('+4930' || n)) AS customer FROM people)
		SELECT count(*) FROM (SELECT tidemark.append('shop' || c, jsonb_agg(e)) FROM (
			SELECT i % 900 AS c, jsonb_build_object('type', 'registered', 'actor', customer ->> 'email', 'tags',
				jsonb_build_array('customer=cust' || n), 'metadata', jsonb_build_object('by', customer ->> 'name'),
				'payload', jsonb_build_object('customer', customer)) AS e FROM customers
			UNION ALL SELECT i * 7 % 900, jsonb_build_object('type', 'ordered', 'tags', jsonb_build_array('customer=cust' || n),
				'payload', jsonb_build_object('customer', customer, 'email', customer ->> 'email', 'amount', i, 'ship', jsonb_build_object('to', jsonb_build_array(
					jsonb_build_object('text', 'to ' || (customer ->> 'name') || ', call ' || (customer #>> '{phones,0}')))))) FROM customers
			UNION ALL SELECT i * 11 % 900, jsonb_build_object('type', 'ordered', 'payload', jsonb_build_object('email', customer ->> 'email',
				'customer', customer, 'amount', 1), 'tags', jsonb_build_array('customer=cust' || n)) FROM customers
			UNION ALL SELECT i * 13 % 900, jsonb_build_object('type', 'disputed', 'payload', jsonb_build_object('customer',
				customer, 'email', customer ->> 'email'), 'tags', jsonb_build_array('customer=cust' || n)) FROM customers WHERE i % 20 = 0
		) e GROUP BY c) a`

	// queryOrder appends an order of a subject that is not erased.
	queryOrder = `SELECT tidemark.append('shop' || $1::int % 900, jsonb_build_array(jsonb_build_object('type', 'ordered', 'payload',
		jsonb_build_object('amount', 1, 'email', 'mail' || lpad($1::text, 6, '0') || '@example.com', 'customer',
			jsonb_build_object('id', 'cust' || lpad($1::text, 6, '0'))))))`

	queryApplied = `SELECT NOT EXISTS (SELECT FROM tidemark.outbox) AND NOT EXISTS (SELECT FROM tidemark.rebuilds)
		AND NOT EXISTS (SELECT FROM tidemark.failed WHERE status = 'catching_up')
		AND (SELECT count(*) = 4 FROM tidemark.projections)
		AND (SELECT bool_and(position >= (SELECT max(position) FROM tidemark.journal)) FROM tidemark.readers)`

	queryBegun = `SELECT count(*) FROM tidemark.failure_log WHERE act = 'rebuild_began'`
)

// different counts the rows in which each read model and the fold of what is left differ.
var different = map[string]string{
	"people": `SELECT campaign_id, seq, payload->'customer'->>'name', payload->'customer'->>'email',
		payload#>>'{customer,phones,0}' FROM tidemark.journal WHERE event_type = 'registered'`,
	"disputes": `SELECT campaign_id, seq, NULL::integer FROM tidemark.journal j WHERE event_type = 'disputed' AND payload = '{}'
		AND NOT EXISTS (SELECT FROM tidemark.journal o WHERE o.campaign_id = j.campaign_id AND o.seq < j.seq
			AND o.event_type = 'disputed' AND o.payload <> '{}')`,
	"spent": `SELECT payload->>'email', sum((payload->>'amount')::bigint) FROM tidemark.journal
		WHERE event_type = 'ordered' AND payload ? 'email' GROUP BY 1`,
	"complaints": `SELECT NULL::text, NULL::integer WHERE false`, // without an email an event has no key
}

const catalogue = "types:\n  registered: {subject: [customer.id]}\n  ordered: {subject: [customer.id]}\n" +
	"  disputed: {subject: [customer.id]}\n"

// MeasureErasure erases one of ten subjects while orders come in and workers and erasures are killed,
// and searches a dump of the database for the values that were planted.
func MeasureErasure(ctx context.Context, b *harness.Bench) (_ []harness.Figure, err error) {
	n := b.Scaled(subjects)
	db, err := b.Migrated(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Drop(context.WithoutCancel(ctx))
	pool, err := db.Pool(ctx, harness.FillConnections)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, queryAppend, 1, n); err != nil {
		return nil, fmt.Errorf("fill the journal: %w", err)
	}
	worker, err := work(ctx, db) // all is applied or has failed
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := erase(ctx, b, worker, pool, n); err != nil {
		return nil, err
	}
	ended := time.Since(began)
	if _, err := work(ctx, db); err != nil {
		return nil, err
	}
	anew := time.Since(began)
	wrong := 0
	for name, fold := range different {
		var rows int
		if err := pool.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM ((TABLE %[1]s EXCEPT %[2]s) UNION ALL
			((%[2]s) EXCEPT TABLE %[1]s)) d`, name, fold)).Scan(&rows); err != nil {
			return nil, fmt.Errorf("compare %s: %w", name, err)
		}
		if rows > 0 {
			b.Logf("%s differs in %d rows", name, rows)
			wrong++
		}
	}
	gone, kept, err := search(ctx, db, pool, n)
	if err != nil {
		return nil, err
	}
	erased := n / erasedOf * valuesEach
	b.Logf("%d values planted, %d erased, %d of these found, %d of %d others found; %.0f s with read models", n*valuesEach,
		erased, gone, kept, n*valuesEach-erased, anew.Seconds())
	if kept != n*valuesEach-erased {
		return nil, fmt.Errorf("the search finds %d values of subjects that were not erased, not %d", kept, n*valuesEach-erased)
	}
	to := fmt.Sprintf("%d values of %d subjects", erased, n/erasedOf)
	return []harness.Figure{
		harness.AtMost(0, harness.Figure{
			Name: "erasure_left", Value: float64(gone), Unit: "values", Ratio: float64(gone) / float64(erased), To: to,
		}),
		harness.AtMost(0, harness.Figure{
			Name: "erasure_different", Value: float64(wrong), Unit: "read models",
			Ratio: float64(wrong) / float64(len(different)), To: fmt.Sprintf("%d read models", len(different)),
		}),
		harness.AtMost(1, harness.Figure{
			Name: "erasure_time", Value: ended.Seconds(), Unit: "s", Ratio: ended.Seconds() / erasesIn.Seconds(),
			To: erasesIn.String() + ", " + to,
		}),
	}, nil
}

// work runs a worker until all is applied or has failed, and nothing is rebuilt any more.
func work(ctx context.Context, db *harness.Database) (worker *harness.Worker, err error) {
	conn, err := db.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if worker, err = harness.StartWorker(ctx, db, projections); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, worker.Stop()) }()
	return worker, worker.Until(ctx, conn, queryApplied)
}

// erase erases the first subjects while orders come in, workers are killed, and calls are given up midway.
func erase(
	ctx context.Context, b *harness.Bench, stopped *harness.Worker, pool *pgxpool.Pool, n int,
) error {
	types, err := yamlfile.Load(fstest.MapFS{"c.yaml": {Data: []byte(catalogue)}}, "c.yaml")
	if err != nil {
		return err
	}
	var keys []string
	for i := 1; i <= n/erasedOf; i++ {
		key := fmt.Sprintf("cust%06d", i)
		if i%2 == 0 {
			key = "customer=" + key
		}
		keys = append(keys, key)
	}
	request := func(keys []string) erasure.Request {
		return erasure.Request{Subjects: keys, Catalogue: types, By: "bench", Reason: "a request"}
	}
	busy, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	orders, kills := 0, 0
	defer func() {
		stop()
		beside.Wait()
		b.Logf("%d orders meanwhile, %d workers killed", orders, kills)
	}()
	beside.Go(func() {
		for ; busy.Err() == nil; orders++ {
			_, _ = pool.Exec(busy, queryOrder, n/erasedOf+1+rand.IntN(n-n/erasedOf))
		}
	})
	var killed sync.Mutex
	for range workers {
		beside.Go(func() {
			for busy.Err() == nil {
				worker, err := stopped.Again()
				if err != nil {
					return
				}
				select {
				case <-busy.Done():
				case <-time.After(time.Duration(1000+rand.IntN(2000)) * time.Millisecond):
				}
				_ = worker.Kill()
				killed.Lock()
				kills++
				killed.Unlock()
			}
		})
	}
	single := min(calls, len(keys)/2)
	start, before, after := time.Now(), 0, 0
	if err := pool.QueryRow(ctx, queryBegun).Scan(&before); err != nil {
		return err
	}
	for i := range single {
		if _, err := erasure.Erase(ctx, pool, request(keys[i:i+1])); err != nil {
			return err
		}
	}
	if err := pool.QueryRow(ctx, queryBegun).Scan(&after); err != nil {
		return err
	}
	b.Logf("%d calls with one subject took %.2g s each and began %d rebuilds of 2 projections", single,
		time.Since(start).Seconds()/float64(single), after-before)
	for interrupted := 0; ; interrupted++ {
		start := time.Now()
		some, cancel := context.WithTimeout(ctx, time.Duration(500+rand.IntN(1000*(1+interrupted*interrupted)))*time.Millisecond)
		c, err := erasure.Erase(some, pool, request(keys[single:]))
		cancel()
		if err == nil {
			b.Logf("%d subjects in one call: %d times interrupted, then %.2g s for %d events", len(keys)-single, interrupted,
				time.Since(start).Seconds(), c.Events)
		}
		if err == nil || errors.Is(err, erasure.ErrNothing) || some.Err() == nil || ctx.Err() != nil {
			return err
		}
	}
}

// search counts the values in a dump of the database: those of erased subjects, and those of others.
func search(ctx context.Context, db *harness.Database, pool *pgxpool.Pool, n int) (gone, kept int, err error) {
	var version int
	if err := pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int / 10000`).Scan(&version); err != nil {
		return 0, 0, err
	}
	program := "pg_dump"
	if found, _ := filepath.Glob(fmt.Sprintf("/usr/lib/postgresql/%d/bin/pg_dump", version)); len(found) > 0 {
		program = found[0]
	}
	dump := exec.CommandContext(ctx, program, "--dbname", db.URL)
	out, err := dump.StdoutPipe()
	if err == nil {
		err = dump.Start()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("dump the database: %w", err)
	}
	values := map[string]bool{}
	for lines := bufio.NewReader(out); err == nil; {
		var line []byte
		line, err = lines.ReadBytes('\n')
		for _, m := range planted.FindAllSubmatch(line, -1) {
			values[string(m[0])] = true
		}
	}
	if !errors.Is(err, io.EOF) {
		return 0, 0, err
	}
	for v := range values {
		m := planted.FindStringSubmatch(v)
		i, _ := strconv.Atoi(m[1] + m[2] + m[3] + m[4])
		if i <= n/erasedOf {
			gone++
		} else {
			kept++
		}
	}
	return gone, kept, dump.Wait()
}
