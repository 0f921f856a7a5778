-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- One row for each named reader of the journal with a place. A publisher has a row for each topic:
-- every event of the topic up to position is published, or has a row in parked. A projection across
-- campaigns has a row for each partition: topic is the name of its set of tables, publisher is '#'
-- and the partition, and its events up to position are applied, or wait in failed. A row is leased
-- like a campaign: owner and generation are in the WHERE of every write by its holder, and any other
-- session that moves position raises the generation. The table has few rows and constant updates, so
-- pages keep room for the versions of a row (HOT).
CREATE TABLE tidemark.readers (
    topic             text COLLATE "C" NOT NULL,
    publisher         text COLLATE "C" NOT NULL,
    position          bigint           NOT NULL,
    status            text COLLATE "C" NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'PAUSED', 'FAILED')),
    reason            text,
    actor             text COLLATE "C",
    paused_until      timestamptz      NOT NULL DEFAULT 'infinity',
    error_count       integer          NOT NULL DEFAULT 0,
    last_error        text,
    last_error_at     timestamptz,
    failing_since     timestamptz,
    next_attempt_at   timestamptz      NOT NULL DEFAULT '-infinity',
    published_count   bigint           NOT NULL DEFAULT 0,
    last_published_at timestamptz,
    owner             text COLLATE "C" NOT NULL DEFAULT '',
    generation        bigint           NOT NULL DEFAULT 0,
    expires_at        timestamptz      NOT NULL DEFAULT '-infinity',
    created_at        timestamptz      NOT NULL DEFAULT clock_timestamp(),
    kind              text COLLATE "C" NOT NULL DEFAULT 'publisher' CHECK (kind IN ('publisher', 'projection')),
    applied           bigint           NOT NULL DEFAULT 0,
    applied_hash      bigint           NOT NULL DEFAULT 0,
    deaths            integer          NOT NULL DEFAULT 0,
    marked            bigint,
    reacts_after      bigint,
    takes             jsonb,
    PRIMARY KEY (topic, publisher)
) WITH (
    fillfactor = 25,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE tidemark.readers IS
    'Position and lease of each reader of the journal: a topic of a publisher, or a partition of a projection.';
COMMENT ON COLUMN tidemark.readers.topic IS 'topic, or set of tables of a projection across campaigns';
COMMENT ON COLUMN tidemark.readers.publisher IS 'publisher, or # and the number of a partition';
COMMENT ON COLUMN tidemark.readers.position IS 'every event up to here is published or parked, applied or failed';
COMMENT ON COLUMN tidemark.readers.status IS 'ACTIVE, PAUSED or FAILED';
COMMENT ON COLUMN tidemark.readers.reason IS 'reason of the pause or failure';
COMMENT ON COLUMN tidemark.readers.actor IS 'operator who paused the pair';
COMMENT ON COLUMN tidemark.readers.paused_until IS 'time at which a pause ends by itself';
COMMENT ON COLUMN tidemark.readers.error_count IS 'consecutive failures';
COMMENT ON COLUMN tidemark.readers.last_error IS 'last failure';
COMMENT ON COLUMN tidemark.readers.last_error_at IS 'time of the last failure';
COMMENT ON COLUMN tidemark.readers.failing_since IS 'time of the first of these failures';
COMMENT ON COLUMN tidemark.readers.next_attempt_at IS 'end of the back-off';
COMMENT ON COLUMN tidemark.readers.published_count IS 'events that the sink has accepted';
COMMENT ON COLUMN tidemark.readers.last_published_at IS 'time at which the sink last accepted events';
COMMENT ON COLUMN tidemark.readers.owner IS 'relay that holds the lease or held it last';
COMMENT ON COLUMN tidemark.readers.generation IS 'fencing token, grows with each acquisition';
COMMENT ON COLUMN tidemark.readers.expires_at IS 'end of the lease';
COMMENT ON COLUMN tidemark.readers.created_at IS 'time of the first start';
COMMENT ON COLUMN tidemark.readers.kind IS 'publisher or projection';
COMMENT ON COLUMN tidemark.readers.applied IS 'events of a projection on the way to the position';
COMMENT ON COLUMN tidemark.readers.applied_hash IS 'XOR of uuid_hash_extended(event_id, 0) over these events';
COMMENT ON COLUMN tidemark.readers.deaths IS
    'processes that died holding the place, without progress; with a mark, those that died at its event';
COMMENT ON COLUMN tidemark.readers.marked IS
    'position of the event that the holder tries alone; negative: it has killed, and is to be tried again';
COMMENT ON COLUMN tidemark.readers.reacts_after IS
    'a process reacts to events after this position. NULL if it is no process, or does not react';
COMMENT ON COLUMN tidemark.readers.takes IS
    'filter of the topic, as tidemark.reader_lag reads it. NULL: all events, or those of the projection';

-- Processes that read the journal by position. knows lists the readers in their configuration:
-- topic and publisher alternate.
CREATE TABLE tidemark.relays (
    owner      text COLLATE "C" PRIMARY KEY,
    host       text             NOT NULL,
    pid        integer          NOT NULL,
    knows      text[]           NOT NULL,
    started_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    seen_at    timestamptz      NOT NULL,
    expires_at timestamptz      NOT NULL,
    pairs_held integer          NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE tidemark.relays IS 'Processes that publish, or apply projections across campaigns.';
COMMENT ON COLUMN tidemark.relays.owner IS 'random name of the process';
COMMENT ON COLUMN tidemark.relays.knows IS 'pairs in its configuration: topic and publisher alternate';
COMMENT ON COLUMN tidemark.relays.seen_at IS 'last update of the row';
COMMENT ON COLUMN tidemark.relays.expires_at IS 'time at which it counts as dead unless the row is updated';
COMMENT ON COLUMN tidemark.relays.pairs_held IS 'leases that it holds';

-- Events that a sink refused. A row with holds = true keeps its campaign back from event seq on
-- (docs/adr/0004). A 'retrying' row is due at next_attempt_at, a 'parked' row waits for an
-- operator, a 'draining' row catches up. The error columns describe event seq. position is that of
-- the event, or the place at which the campaign was left.
CREATE TABLE tidemark.parked (
    topic           text COLLATE "C" NOT NULL,
    publisher       text COLLATE "C" NOT NULL,
    campaign_id     text COLLATE "C" NOT NULL,
    seq             bigint           NOT NULL,
    holds           boolean          NOT NULL,
    position        bigint           NOT NULL,
    event_id        uuid,
    event_type      text COLLATE "C",
    status          text COLLATE "C" NOT NULL CHECK (status IN ('retrying', 'parked', 'draining')),
    attempt_count   integer          NOT NULL DEFAULT 0,
    next_attempt_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    error_message   text,
    first_failed_at timestamptz,
    last_failed_at  timestamptz,
    PRIMARY KEY (topic, publisher, campaign_id, seq, holds)
);
COMMENT ON TABLE tidemark.parked IS
    'Events that a sink refused, and where their campaign waits (docs/adr/0004).';
COMMENT ON COLUMN tidemark.parked.holds IS 'true if the campaign waits from this event on';
COMMENT ON COLUMN tidemark.parked.position IS 'position of the event, or the place at which the campaign was left';
COMMENT ON COLUMN tidemark.parked.status IS
    'retrying (tried again), parked (waits for an operator) or draining (catches up)';
COMMENT ON COLUMN tidemark.parked.attempt_count IS 'number of refusals';
COMMENT ON COLUMN tidemark.parked.error_message IS 'message without event data';
COMMENT ON COLUMN tidemark.parked.first_failed_at IS 'first refusal';
COMMENT ON COLUMN tidemark.parked.last_failed_at IS 'last refusal';

CREATE UNIQUE INDEX parked_holds_key ON tidemark.parked (topic, publisher, campaign_id) WHERE holds;
CREATE INDEX parked_due_idx ON tidemark.parked (topic, publisher, next_attempt_at)
    WHERE status IN ('retrying', 'draining');

-- Events that a sink has accepted but that the journal no longer has: a failover or a restore lost
-- the commits that appended them. A relay finds them among the events that it remembers sending.
-- position and seq are those of the lost event.
CREATE TABLE tidemark.ghosts (
    topic       text COLLATE "C" NOT NULL,
    publisher   text COLLATE "C" NOT NULL,
    position    bigint           NOT NULL,
    campaign_id text COLLATE "C" NOT NULL,
    event_id    uuid             NOT NULL,
    seq         bigint           NOT NULL,
    seen_at     timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (topic, publisher, position, campaign_id, event_id)
);
COMMENT ON TABLE tidemark.ghosts IS 'Published events that the database lost in a failover or a restore.';
COMMENT ON COLUMN tidemark.ghosts.seen_at IS 'time at which a relay missed it';

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
COMMENT ON COLUMN tidemark.inbox.campaign_id IS 'campaign, or the name of a sender without campaigns';
COMMENT ON COLUMN tidemark.inbox.expires_at IS 'expiry of the row. The event counts as new afterwards';

CREATE INDEX inbox_expires_idx ON tidemark.inbox (expires_at);

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP TABLE tidemark.inbox;
DROP TABLE tidemark.ghosts;
DROP TABLE tidemark.parked;
DROP TABLE tidemark.relays;
DROP TABLE tidemark.readers;
