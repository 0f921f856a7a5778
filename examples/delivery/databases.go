package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/migrations"
)

const shopTables = `
CREATE SCHEMA delivery;
CREATE TABLE delivery.orders (id bigint PRIMARY KEY, customer text NOT NULL, amount bigint NOT NULL)`

// billingTables have no key on an order's invoices, so a second invoice would show.
const billingTables = `
CREATE SCHEMA delivery;
CREATE TABLE delivery.invoices (order_id bigint NOT NULL, amount bigint NOT NULL);
CREATE TABLE delivery.accounts (customer text PRIMARY KEY, owes bigint NOT NULL);
CREATE TABLE delivery.deliveries (event_id uuid NOT NULL)`

// service is one service with a database of its own.
type service struct {
	name, url string
	pool      *pgxpool.Pool
}

// createServices creates a database for each of the two services on one server. Only the broker
// connects them.
func createServices(ctx context.Context, server string) (shop, billing *service, err error) {
	run := "_" + uuid.NewString()[:8] + "_"
	if shop, err = createService(ctx, server, run+shopRole, shopTables); err != nil {
		return nil, nil, err
	}
	if billing, err = createService(ctx, server, run+billingRole, billingTables); err != nil {
		return nil, nil, errors.Join(err, shop.drop(ctx, server))
	}
	return shop, billing, nil
}

// createService creates and migrates a database, named after the one in the server's address.
func createService(ctx context.Context, server, suffix, tables string) (s *service, err error) {
	cfg, err := pgx.ParseConfig(server)
	if err != nil {
		return nil, err
	}
	s = &service{name: cfg.Database + suffix}
	if s.url, err = withDatabase(server, s.name); err != nil {
		return nil, err
	}
	if err := administer(ctx, server, "CREATE DATABASE %s TEMPLATE template0", s.name); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("set up %s: %w", s.name, err), s.drop(ctx, server))
		}
	}()
	if err := migrations.Up(ctx, s.url); err != nil {
		return nil, err
	}
	if s.pool, err = pgxpool.New(ctx, s.url); err != nil {
		return nil, err
	}
	_, err = s.pool.Exec(ctx, tables)
	return s, err
}

func (s *service) drop(ctx context.Context, server string) error {
	if s.pool != nil {
		s.pool.Close()
	}
	return administer(context.WithoutCancel(ctx), server, "DROP DATABASE %s WITH (FORCE)", s.name)
}

// administer runs a statement on a database over a connection to another one.
func administer(ctx context.Context, server, statement, database string) (err error) {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, fmt.Sprintf(statement, pgx.Identifier{database}.Sanitize()))
	return err
}

// withDatabase returns a server's address with another database name.
func withDatabase(server, name string) (string, error) {
	if !strings.Contains(server, "://") { // keywords and values, where the last one wins
		return server + " dbname=" + name, nil
	}
	u, err := url.Parse(server)
	if err != nil {
		return "", errors.New("the server's address is no URL") // without the cause, which may contain the password
	}
	u.Path = "/" + name
	return u.String(), nil
}
