package harness

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// PublishPairs is the number of pairs of one replica in measures with many pairs.
const PublishPairs = 100

// OpenRelayPool opens a pool with more connections than a relay needs.
func OpenRelayPool(ctx context.Context, db *Database) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		return nil, fmt.Errorf("parse the address of database %s: %w", db.Name, err)
	}
	config.MaxConns = PublishPairs // more than it needs
	return pgxpool.NewWithConfig(ctx, config)
}

// RelayConfig returns a configuration with one topic of all events and the given number of
// publishers to one sink.
func RelayConfig(pool *pgxpool.Pool, sink publisher.Sink, pairs int) publisher.Config {
	cfg := publisher.Config{Pool: pool, Topics: []publisher.Topic{{Name: "all"}}}
	for i := range pairs {
		cfg.Publishers = append(cfg.Publishers, publisher.Publisher{
			Name: fmt.Sprintf("p%d", i), Sink: sink,
			Topics: []string{"all"},
		})
	}
	return cfg
}

// StartRelay runs a relay until stop is called. stop returns the relay's error.
func StartRelay(ctx context.Context, relay *publisher.Relay) (stop func() error) {
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(running) }()
	return func() error {
		cancel()
		if err := <-ended; err != nil {
			return fmt.Errorf("relay: %w", err)
		}
		return nil
	}
}
