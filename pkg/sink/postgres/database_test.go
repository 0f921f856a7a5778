package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/publisher/publishertest"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/proxy"
)

// database is an empty database behind a proxy. The proxy can cut the connection.
type database struct {
	t     *testing.T
	pool  *pgxpool.Pool // not through the proxy
	proxy *proxy.Proxy
	url   string // through the proxy
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), pgtest.UTF8(pgtest.Empty(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	p, address := proxy.ForPostgres(t, pool)
	return &database{t: t, pool: pool, proxy: p, url: address}
}

func (d *database) start() {
	d.t.Helper()
	d.proxy.Open(d.t)
}

func (d *database) stop() (start func()) {
	d.proxy.Stop()
	return d.start
}

// stall holds back everything the server sends.
func (d *database) stall() (resume func()) {
	d.t.Helper()
	d.proxy.Toxic(d.t, "timeout", "downstream", map[string]int{"timeout": 0})
	return func() { d.proxy.Heal(d.t) }
}

func (d *database) exec(sql string) {
	d.t.Helper()
	if _, err := d.pool.Exec(d.t.Context(), sql); err != nil {
		d.t.Fatal(err)
	}
}

// read returns the rows of the table in the order of arrival.
func (d *database) read(ctx context.Context, table string) (received []publishertest.Received, err error) {
	rows, err := d.pool.Query(ctx, "SELECT event_id, campaign_id, body::text FROM "+table+" ORDER BY arrival")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r publishertest.Received, err error) {
		err = row.Scan(&r.EventID, &r.CampaignID, &r.Body)
		return r, err
	})
}
