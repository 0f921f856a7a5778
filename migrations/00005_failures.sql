-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- History of failed campaigns: every failed attempt and every decision of an operator. Rows are
-- only inserted, and pruned by age.
CREATE TABLE tidemark.failure_log (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at                 timestamptz NOT NULL DEFAULT clock_timestamp(),
    act                text COLLATE "C" NOT NULL CHECK (act IN ('failed', 'dead', 'skipped', 'crashed', 'recovered',
        'requeued', 'resolved', 'unresolved', 'replayed', 'repaired', 'paused', 'resumed',
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
    worker             text COLLATE "C",
    actor              text COLLATE "C",
    reason             text
);
COMMENT ON TABLE tidemark.failure_log IS 'History of failures and of operators'' acts on projections. Pruned by age.';
COMMENT ON COLUMN tidemark.failure_log.id IS 'number of the row';
COMMENT ON COLUMN tidemark.failure_log.at IS 'time';
COMMENT ON COLUMN tidemark.failure_log.act IS 'the attempt or act';
COMMENT ON COLUMN tidemark.failure_log.consumer_group IS 'group';
COMMENT ON COLUMN tidemark.failure_log.projection IS 'projection, NULL for acts on a group';
COMMENT ON COLUMN tidemark.failure_log.projection_version IS 'version of its code';
COMMENT ON COLUMN tidemark.failure_log.campaign_id IS 'campaign';
COMMENT ON COLUMN tidemark.failure_log.seq IS 'event';
COMMENT ON COLUMN tidemark.failure_log.event_id IS 'id of the event';
COMMENT ON COLUMN tidemark.failure_log.event_type IS 'type of the event';
COMMENT ON COLUMN tidemark.failure_log.attempt IS 'number of the attempt';
COMMENT ON COLUMN tidemark.failure_log.error_class IS 'as in deferred';
COMMENT ON COLUMN tidemark.failure_log.error_code IS 'as in deferred';
COMMENT ON COLUMN tidemark.failure_log.error_message IS 'as in deferred';
COMMENT ON COLUMN tidemark.failure_log.error_stack IS 'as in deferred';
COMMENT ON COLUMN tidemark.failure_log.fingerprint IS 'as in deferred';
COMMENT ON COLUMN tidemark.failure_log.worker IS 'worker that failed';
COMMENT ON COLUMN tidemark.failure_log.actor IS 'operator who acted';
COMMENT ON COLUMN tidemark.failure_log.reason IS 'reason of the operator';

CREATE INDEX failure_log_pair_idx ON tidemark.failure_log (campaign_id, projection, id);
CREATE INDEX failure_log_at_idx ON tidemark.failure_log (at);
CREATE INDEX failure_log_passed_idx ON tidemark.failure_log (projection) WHERE act IN ('skipped', 'replayed');

-- Events that operators have left out of a projection for good. Every apply of the campaign, to any
-- of the projection's sets of tables, leaves the event out. So the name is never NAME~next or
-- NAME~previous, and rows are kept as long as the journal.
CREATE TABLE tidemark.resolutions (
    campaign_id text COLLATE "C" NOT NULL,
    projection  text COLLATE "C" NOT NULL,
    seq         bigint           NOT NULL,
    actor       text COLLATE "C" NOT NULL,
    reason      text             NOT NULL,
    resolved_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (campaign_id, projection, seq)
);
COMMENT ON TABLE tidemark.resolutions IS
    'Events that operators have left out of a projection. Kept as long as the journal.';
COMMENT ON COLUMN tidemark.resolutions.campaign_id IS 'campaign of the event';
COMMENT ON COLUMN tidemark.resolutions.projection IS 'name without ~next or ~previous';
COMMENT ON COLUMN tidemark.resolutions.seq IS 'the event';
COMMENT ON COLUMN tidemark.resolutions.actor IS 'operator';
COMMENT ON COLUMN tidemark.resolutions.reason IS 'reason of the operator';
COMMENT ON COLUMN tidemark.resolutions.resolved_at IS 'time of the act';

CREATE INDEX resolutions_projection_idx ON tidemark.resolutions (projection, campaign_id, seq);

-- Groups, projections and campaigns that operators have paused, until they are resumed or the pause
-- expires.
CREATE TABLE tidemark.pauses (
    scope          text COLLATE "C" NOT NULL CHECK (scope IN ('group', 'projection', 'campaign')),
    consumer_group text COLLATE "C" NOT NULL,
    name           text COLLATE "C" NOT NULL, -- projection or campaign; '' for the group
    reason         text             NOT NULL,
    actor          text COLLATE "C" NOT NULL,
    paused_at      timestamptz      NOT NULL DEFAULT clock_timestamp(),
    expires_at     timestamptz      NOT NULL DEFAULT 'infinity',
    PRIMARY KEY (scope, consumer_group, name)
);
COMMENT ON TABLE tidemark.pauses IS 'Paused groups, projections and campaigns.';
COMMENT ON COLUMN tidemark.pauses.scope IS 'group, projection or campaign';
COMMENT ON COLUMN tidemark.pauses.consumer_group IS 'group';
COMMENT ON COLUMN tidemark.pauses.name IS 'projection or campaign, empty for the group';
COMMENT ON COLUMN tidemark.pauses.reason IS 'reason of the operator';
COMMENT ON COLUMN tidemark.pauses.actor IS 'operator, or the policy';
COMMENT ON COLUMN tidemark.pauses.paused_at IS 'start of the pause';
COMMENT ON COLUMN tidemark.pauses.expires_at IS 'end of the pause, infinity until it is resumed';

-- Campaigns whose lease a dead process left behind, with the work that later owners marked. The row
-- is deleted when the campaign moves on.
CREATE TABLE tidemark.crashes (
    consumer_group text COLLATE "C" NOT NULL,
    campaign_id    text COLLATE "C" NOT NULL,
    checkpoint     bigint           NOT NULL,
    owners         text[]           NOT NULL,
    marks          jsonb            NOT NULL DEFAULT '{}',
    at             timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (consumer_group, campaign_id)
);
COMMENT ON TABLE tidemark.crashes IS
    'Campaigns whose lease a dead process left behind. The row is deleted when the campaign moves on.';
COMMENT ON COLUMN tidemark.crashes.consumer_group IS 'group';
COMMENT ON COLUMN tidemark.crashes.campaign_id IS 'campaign';
COMMENT ON COLUMN tidemark.crashes.checkpoint IS 'checkpoint at the time of the deaths';
COMMENT ON COLUMN tidemark.crashes.owners IS 'processes that died there, each within an hour of the one before';
COMMENT ON COLUMN tidemark.crashes.marks IS
    'owner to the work it tried alone: {} for the campaign, or projection and seq of an event';
COMMENT ON COLUMN tidemark.crashes.at IS 'time of the last death';

-- Suspects. Every claim checks whether there are any.
CREATE INDEX crashes_suspect_idx ON tidemark.crashes (consumer_group) WHERE cardinality(owners) > 0;

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP TABLE tidemark.crashes;
DROP TABLE tidemark.pauses;
DROP TABLE tidemark.resolutions;
DROP TABLE tidemark.failure_log;
