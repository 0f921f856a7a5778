-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- Events that consumers have processed. pkg/inbox writes a row in the transaction that has the
-- effects of an event. An expired row counts as absent and is pruned. Rows are never updated while
-- they are valid, so the table sees only inserts and the deletes of pruning.
CREATE TABLE tidemark.inbox (
    consumer    text COLLATE "C" NOT NULL,
    campaign_id text COLLATE "C" NOT NULL, -- '' for a sender without campaigns
    event_id    uuid             NOT NULL,
    expires_at  timestamptz      NOT NULL,
    PRIMARY KEY (consumer, event_id, campaign_id)
) WITH (
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE tidemark.inbox IS 'Events that consumers have handled (pkg/inbox).';
COMMENT ON COLUMN tidemark.inbox.consumer IS 'name of the consumer';
COMMENT ON COLUMN tidemark.inbox.campaign_id IS 'campaign, or the name of a sender without campaigns';
COMMENT ON COLUMN tidemark.inbox.event_id IS 'event';
COMMENT ON COLUMN tidemark.inbox.expires_at IS 'expiry of the row. The event counts as new afterwards';

CREATE INDEX inbox_expires_idx ON tidemark.inbox (expires_at);

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP TABLE tidemark.inbox;
