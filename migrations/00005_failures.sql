-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- What happened to deferred pairs, and what operators did: every attempt that failed, every
-- decision. Rows are only inserted, and pruned by age.
CREATE TABLE tidemark.failure_log (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at                 timestamptz NOT NULL DEFAULT clock_timestamp(),
    act                text COLLATE "C" NOT NULL CHECK (act IN ('failed', 'dead', 'skipped', 'crashed', 'recovered',
        'second_chance',
        'requeued', 'retried', 'resolved', 'unresolved', 'replayed', 'backfilled', 'repaired', 'paused', 'resumed',
            'removed',
        'rebuild_began', 'rebuilt', 'rebuild_aborted', 'rolled_back')),
    consumer_group     text COLLATE "C" NOT NULL,
    projection         text COLLATE "C",
    projection_version integer,
    campaign_id        text COLLATE "C",
    seq                bigint,
    event_id           uuid,
    event_type         text COLLATE "C",
    attempt            integer,
    error_class        text COLLATE "C",
    error_code         text COLLATE "C",
    error_message      text,
    error_stack        text,
    fingerprint        text COLLATE "C",
    worker             text COLLATE "C", -- that failed
    actor              text COLLATE "C", -- who acted
    reason             text
);

CREATE INDEX failure_log_pair_idx ON tidemark.failure_log (campaign_id, projection, id);
CREATE INDEX failure_log_at_idx ON tidemark.failure_log (at);
CREATE INDEX failure_log_passed_idx ON tidemark.failure_log (projection) WHERE act IN ('skipped', 'replayed');

-- Events that operators have left out of a projection, for good. A row is part of the truth about
-- the pair: whatever applies the campaign's events to any of the projection's sets of tables leaves
-- the event out. So the name is never NAME~next or NAME~previous, and rows are kept as long as the
-- journal.
CREATE TABLE tidemark.resolutions (
    campaign_id text COLLATE "C" NOT NULL,
    projection  text COLLATE "C" NOT NULL,
    seq         bigint           NOT NULL,
    actor       text COLLATE "C" NOT NULL,
    reason      text             NOT NULL,
    resolved_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (campaign_id, projection, seq)
);

CREATE INDEX resolutions_projection_idx ON tidemark.resolutions (projection, campaign_id, seq);

-- What operators have stopped, until it is resumed or expires.
CREATE TABLE tidemark.pauses (
    scope          text COLLATE "C" NOT NULL CHECK (scope IN ('group', 'projection', 'campaign')),
    consumer_group text COLLATE "C" NOT NULL,
    name           text COLLATE "C" NOT NULL, -- of the projection or the campaign; '' for the group
    reason         text             NOT NULL,
    actor          text COLLATE "C" NOT NULL,
    paused_at      timestamptz      NOT NULL DEFAULT clock_timestamp(),
    expires_at     timestamptz      NOT NULL DEFAULT 'infinity',
    PRIMARY KEY (scope, consumer_group, name)
);

-- Campaigns whose lease was left behind by a process that died, and what those who took over were
-- at. A row goes when the campaign has got further.
CREATE TABLE tidemark.crashes (
    consumer_group text COLLATE "C" NOT NULL,
    campaign_id    text COLLATE "C" NOT NULL,
    checkpoint     bigint           NOT NULL,
    -- the processes that died holding it there, none more than an hour after the one before
    owners         text[]           NOT NULL,
    -- by owner: what it was trying, alone in its process. {}: the campaign; {"projection", "seq"}:
    -- an event for a projection
    marks          jsonb            NOT NULL DEFAULT '{}',
    at             timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (consumer_group, campaign_id)
);

-- Suspects. Every claim looks whether there are any.
CREATE INDEX crashes_suspect_idx ON tidemark.crashes (consumer_group) WHERE cardinality(owners) > 0;

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP TABLE tidemark.crashes;
DROP TABLE tidemark.pauses;
DROP TABLE tidemark.resolutions;
DROP TABLE tidemark.failure_log;
