-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- State 'filing' lasts until every campaign that is behind has a work item. Appends write no work
-- items for a group in state 'inline', since they apply the events themselves, or 'across': its
-- projections are all across campaigns, and read the journal.
CREATE TABLE tidemark.consumer_groups (
    name          text COLLATE "C" PRIMARY KEY,
    state         text NOT NULL DEFAULT 'filing' CHECK (state IN ('filing', 'ready', 'inline', 'across')),
    registered_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE tidemark.consumer_groups IS
    'Consumer groups. Each append writes work items for those that are filing or ready.';
COMMENT ON COLUMN tidemark.consumer_groups.state IS
    'filing until every campaign that is behind has a work item, then ready. inline: appends apply. across: all projections are across campaigns';

-- One row stands for the events that one append added to a campaign (docs/adr/0011). Rows are
-- inserted and deleted, never updated. The lease of the campaign tells whether they are being
-- processed (docs/adr/0001).
CREATE TABLE tidemark.outbox (
    consumer_group text COLLATE "C" NOT NULL,
    campaign_id    text COLLATE "C" NOT NULL,
    seq            bigint           NOT NULL,
    enqueued_at    timestamptz      NOT NULL,
    events         integer          NOT NULL,
    PRIMARY KEY (consumer_group, campaign_id, seq)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.5,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE tidemark.outbox IS
    'Queue of work items: one row for each append, group and campaign (docs/adr/0011). Never updated (docs/adr/0001).';
COMMENT ON COLUMN tidemark.outbox.consumer_group IS 'group that has to apply the events';
COMMENT ON COLUMN tidemark.outbox.seq IS 'the last of the events';
COMMENT ON COLUMN tidemark.outbox.enqueued_at IS 'time of the append';
COMMENT ON COLUMN tidemark.outbox.events IS 'number of events. Those up to the checkpoint are already applied';

-- Half of each page stays free, so an updated lease stays on its page (HOT) without index writes.
-- Without deduplication, the index entries of a lease that vacuum cannot remove stand in the order of
-- their places even when they are read backwards (docs/adr/0020).
CREATE TABLE tidemark.leases (
    consumer_group text COLLATE "C" NOT NULL,
    campaign_id    text COLLATE "C" NOT NULL,
    owner          text COLLATE "C" NOT NULL,
    generation     bigint           NOT NULL,
    expires_at     timestamptz      NOT NULL,
    checkpoint     bigint           NOT NULL,
    applied        bigint           NOT NULL DEFAULT 0,
    applied_hash   bigint           DEFAULT 0,
    PRIMARY KEY (consumer_group, campaign_id) WITH (deduplicate_items = off)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE tidemark.leases IS
    'Ownership of campaigns in a group, and the checkpoint that it guards. Kept after release.';
COMMENT ON COLUMN tidemark.leases.owner IS 'worker that holds the lease or held it last, or paused';
COMMENT ON COLUMN tidemark.leases.generation IS 'fencing token, grows with each acquisition';
COMMENT ON COLUMN tidemark.leases.expires_at IS 'end of the lease, -infinity once it is released';
COMMENT ON COLUMN tidemark.leases.checkpoint IS 'last seq that the group has applied';
COMMENT ON COLUMN tidemark.leases.applied IS 'events that workers have read on the way to the checkpoint';
COMMENT ON COLUMN tidemark.leases.applied_hash IS
    'XOR of uuid_hash_extended(event_id, 0) over these events, NULL if unknown';

CREATE TABLE tidemark.workers (
    owner          text COLLATE "C" PRIMARY KEY,
    consumer_group text COLLATE "C" NOT NULL,
    host           text             NOT NULL,
    pid            integer          NOT NULL,
    started_at     timestamptz      NOT NULL,
    seen_at        timestamptz      NOT NULL,
    campaigns_held integer          NOT NULL,
    events_applied bigint           NOT NULL,
    knows          jsonb            NOT NULL DEFAULT '{}',
    lease_ttl      interval         NOT NULL DEFAULT '30 s',
    statements     jsonb            NOT NULL DEFAULT '{}',
    drained_by     text COLLATE "C"
) WITH (fillfactor = 50);
COMMENT ON TABLE tidemark.workers IS 'Worker processes. Each updates its row every second.';
COMMENT ON COLUMN tidemark.workers.owner IS 'random name of the process';
COMMENT ON COLUMN tidemark.workers.consumer_group IS 'group that it serves';
COMMENT ON COLUMN tidemark.workers.seen_at IS 'last update of the row';
COMMENT ON COLUMN tidemark.workers.campaigns_held IS 'leases that it holds';
COMMENT ON COLUMN tidemark.workers.events_applied IS 'events since its start';
COMMENT ON COLUMN tidemark.workers.knows IS 'projections that it has code for, with their versions';
COMMENT ON COLUMN tidemark.workers.lease_ttl IS 'duration of its leases';
COMMENT ON COLUMN tidemark.workers.statements IS 'hashes of the statements of its SQL files, by name/version';
COMMENT ON COLUMN tidemark.workers.drained_by IS 'operator who drained it, NULL while it takes work';

-- The time, in milliseconds since 1970, until which a worker waits for a wake-up. A sequence is
-- visible at once, and idle workers and appends do not contend for it as they would for a row
-- (docs/adr/0002).
CREATE SEQUENCE tidemark.waiting AS bigint MINVALUE 0 START 0 CACHE 1;
COMMENT ON SEQUENCE tidemark.waiting IS 'Time, in milliseconds since 1970, until which a worker waits (docs/adr/0002).';

CREATE SEQUENCE tidemark.notify_queue AS bigint MINVALUE 0 START 0 CACHE 1;
COMMENT ON SEQUENCE tidemark.notify_queue IS
    'Twice the time, in milliseconds since 1970, of the last look at the server''s NOTIFY queue; odd: it was more than half full.';

-- A 'joining' projection is not yet in step with its group: every campaign that moves gets a row in
-- failed for it. Once the campaigns that do not move have rows too it becomes 'active'. From then
-- on it is in step wherever failed has no row.
-- During a rebuild NAME~next stands for the tables that will replace those of NAME. It is
-- 'requested' until a worker that has the code creates the tables, then 'copying', and 'copied'
-- until the campaigns that were not copied have rows. Afterwards NAME~previous stands for the
-- replaced tables (docs/guides/rebuild.md).
CREATE TABLE tidemark.projections (
    name           text COLLATE "C" PRIMARY KEY,
    consumer_group text COLLATE "C" NOT NULL,
    version        integer          NOT NULL,
    schema_name    text             NOT NULL,
    table_names    text[]           NOT NULL,
    state          text             NOT NULL CHECK (state IN ('requested', 'copying', 'copied', 'joining', 'active')),
    own_reset      boolean          NOT NULL DEFAULT false,
    own_objects    text[]           NOT NULL DEFAULT '{}',
    declined       integer          NOT NULL DEFAULT 0,
    kept_until     timestamptz,
    resolved_ahead boolean          NOT NULL DEFAULT false,
    registered_at  timestamptz      NOT NULL DEFAULT clock_timestamp(),
    scope          text COLLATE "C" NOT NULL DEFAULT 'campaign' CHECK (scope IN ('campaign', 'journal')),
    written_by     text COLLATE "C" NOT NULL DEFAULT current_user,
    statements     text COLLATE "C" NOT NULL DEFAULT '',
    other          text COLLATE "C" NOT NULL DEFAULT '',
    other_since    timestamptz,
    takes          jsonb
);
COMMENT ON TABLE tidemark.projections IS
    'Registry of projections. During a rebuild NAME~next and NAME~previous are rows of their own (docs/guides/rebuild.md).';
COMMENT ON COLUMN tidemark.projections.name IS 'name. NAME~next and NAME~previous are the other sets of tables';
COMMENT ON COLUMN tidemark.projections.consumer_group IS 'group that applies it';
COMMENT ON COLUMN tidemark.projections.version IS 'version of the code that writes the tables';
COMMENT ON COLUMN tidemark.projections.table_names IS 'tables in order of creation';
COMMENT ON COLUMN tidemark.projections.state IS
    'requested, copying, copied, joining, then active: in step wherever failed has no row';
COMMENT ON COLUMN tidemark.projections.own_reset IS 'true if its code deletes a campaign''s rows';
COMMENT ON COLUMN tidemark.projections.own_objects IS
    'indexes, constraints and other objects of its own DDL. Others belong to users';
COMMENT ON COLUMN tidemark.projections.declined IS 'no rebuild to this version or a lower one begins by itself';
COMMENT ON COLUMN tidemark.projections.kept_until IS 'time at which the tables of NAME~previous may be dropped';
COMMENT ON COLUMN tidemark.projections.resolved_ahead IS
    'true if a resolved event was ahead of its group at the registration';
COMMENT ON COLUMN tidemark.projections.scope IS
    'campaign: applied campaign by campaign. journal: across campaigns, by the places in readers';
COMMENT ON COLUMN tidemark.projections.written_by IS
    'role that wrote the names of schema and tables: what it may not drop is not dropped for the row';
COMMENT ON COLUMN tidemark.projections.statements IS
    'hash of the statements of the SQL file that made the tables, empty for a projection in Go';
COMMENT ON COLUMN tidemark.projections.other IS 'hash of another file of this version that a worker had, empty: none';
COMMENT ON COLUMN tidemark.projections.other_since IS
    'time at which a worker first had that other file: ten minutes later none registers it';
COMMENT ON COLUMN tidemark.projections.takes IS
    'events that its code takes, as tidemark.reader_lag reads it: types with their aliases, and intents. NULL: all';

-- Options of a rebuild, as given when it began. The row is deleted together with NAME~next.
CREATE TABLE tidemark.rebuilds (
    projection    text COLLATE "C" PRIMARY KEY,
    max_share     float8           NOT NULL,
    allow_failed  bigint           NOT NULL,
    keep          interval         NOT NULL,
    verify_sample integer          NOT NULL,
    verify_ignore text[]           NOT NULL,
    version       integer          NOT NULL DEFAULT 0,
    actor         text COLLATE "C" NOT NULL,
    reason        text             NOT NULL,
    campaigns     bigint,
    events        bigint,
    active_at     timestamptz,
    copied_to     text COLLATE "C" NOT NULL DEFAULT '',
    refusal       text,
    refused_at    timestamptz,
    started_at    timestamptz      NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE tidemark.rebuilds IS 'Running rebuilds with their options. The row is deleted with NAME~next.';
COMMENT ON COLUMN tidemark.rebuilds.max_share IS 'maximum share of the time of a worker''s goroutines';
COMMENT ON COLUMN tidemark.rebuilds.allow_failed IS 'number of campaigns that may be failed or dead at the swap';
COMMENT ON COLUMN tidemark.rebuilds.keep IS 'time to keep the replaced tables';
COMMENT ON COLUMN tidemark.rebuilds.verify_sample IS 'number of campaigns to compare with their events before the swap';
COMMENT ON COLUMN tidemark.rebuilds.verify_ignore IS 'columns that the comparison ignores';
COMMENT ON COLUMN tidemark.rebuilds.version IS 'version that was requested, 0: the highest that a worker has';
COMMENT ON COLUMN tidemark.rebuilds.actor IS 'operator who requested it';
COMMENT ON COLUMN tidemark.rebuilds.campaigns IS 'campaigns to catch up with when its tables were created';
COMMENT ON COLUMN tidemark.rebuilds.events IS 'events of these campaigns';
COMMENT ON COLUMN tidemark.rebuilds.active_at IS 'time at which its tables were created';
COMMENT ON COLUMN tidemark.rebuilds.copied_to IS 'last campaign of the ranges taken by workers';
COMMENT ON COLUMN tidemark.rebuilds.refusal IS 'reason why the last swap was refused';
COMMENT ON COLUMN tidemark.rebuilds.started_at IS 'time of the request';

-- Ranges of campaigns, from after first up to last, whose events a rebuild has copied up to their
-- checkpoints. Campaigns that were not copied, or have moved since, catch up on their own.
CREATE TABLE tidemark.rebuild_ranges (
    projection text COLLATE "C" NOT NULL,
    first      text COLLATE "C" NOT NULL,
    last       text COLLATE "C" NOT NULL,
    campaigns  bigint           NOT NULL,
    events     bigint           NOT NULL,
    PRIMARY KEY (projection, last)
);
COMMENT ON TABLE tidemark.rebuild_ranges IS 'Ranges of campaigns that a rebuild has copied up to their checkpoints.';
COMMENT ON COLUMN tidemark.rebuild_ranges.first IS 'the range begins after this campaign';
COMMENT ON COLUMN tidemark.rebuild_ranges.last IS 'last campaign of the range';
COMMENT ON COLUMN tidemark.rebuild_ranges.events IS 'events that were copied';

-- One row for each campaign in which a projection is behind its group. next_seq is the next event
-- to apply. Of a projection across campaigns, campaign_id is the key that is behind, and next_seq
-- the position of the event. A 'failed' row is retried at next_attempt_at, a 'dead' row waits for an operator
-- ('infinity'), a 'catching_up' row catches up. With reset the campaign's rows in the projection's
-- tables are deleted before the next event is applied. The error columns describe event next_seq.
CREATE TABLE tidemark.failed (
    campaign_id        text COLLATE "C" NOT NULL,
    projection         text COLLATE "C" NOT NULL,
    consumer_group     text COLLATE "C" NOT NULL,
    next_seq           bigint           NOT NULL,
    status             text COLLATE "C" NOT NULL CHECK (status IN ('failed', 'dead', 'catching_up')),
    attempt_count      integer          NOT NULL DEFAULT 0,
    next_attempt_at    timestamptz      NOT NULL DEFAULT clock_timestamp(),
    reset              boolean          NOT NULL DEFAULT false,
    projection_version integer,
    event_id           uuid,
    event_type         text COLLATE "C",
    error_class        text COLLATE "C",
    error_code         text COLLATE "C",
    error_message      text,
    error_stack        text,
    fingerprint        text COLLATE "C",
    worker             text COLLATE "C",
    first_failed_at    timestamptz,
    last_failed_at     timestamptz,
    PRIMARY KEY (campaign_id, projection),
    CONSTRAINT failed_due_check CHECK (status = 'dead' OR next_attempt_at < 'infinity')
);
COMMENT ON TABLE tidemark.failed IS
    'Failed campaigns: one row for each campaign in which a projection is behind its group.';
COMMENT ON COLUMN tidemark.failed.campaign_id IS 'campaign, or key of a projection across campaigns';
COMMENT ON COLUMN tidemark.failed.projection IS 'projection that is behind';
COMMENT ON COLUMN tidemark.failed.next_seq IS 'next event to apply: its seq, or its position across campaigns';
COMMENT ON COLUMN tidemark.failed.status IS
    'failed (retried at next_attempt_at), dead (waits for an operator) or catching_up';
COMMENT ON COLUMN tidemark.failed.attempt_count IS 'failed attempts at next_seq';
COMMENT ON COLUMN tidemark.failed.next_attempt_at IS 'time of the next attempt, infinity if it waits for an operator';
COMMENT ON COLUMN tidemark.failed.reset IS
    'true if the campaign''s rows are deleted before the next event is applied';
COMMENT ON COLUMN tidemark.failed.projection_version IS 'what was registered at the last attempt';
COMMENT ON COLUMN tidemark.failed.event_type IS 'as the journal has it, before upcasts';
COMMENT ON COLUMN tidemark.failed.error_class IS 'transient, permanent, lock or infrastructure';
COMMENT ON COLUMN tidemark.failed.error_code IS 'SQLSTATE, or a code like panic, decode, deadline or crash';
COMMENT ON COLUMN tidemark.failed.error_message IS 'message without event data';
COMMENT ON COLUMN tidemark.failed.error_stack IS 'stack of a panic';
COMMENT ON COLUMN tidemark.failed.fingerprint IS 'equal for failures that differ only in numbers, ids and names';
COMMENT ON COLUMN tidemark.failed.worker IS 'name of the process that made the last attempt';
COMMENT ON COLUMN tidemark.failed.first_failed_at IS 'first failure at next_seq';
COMMENT ON COLUMN tidemark.failed.last_failed_at IS 'last failure at next_seq';

CREATE INDEX failed_due_idx ON tidemark.failed (consumer_group, projection, next_attempt_at, campaign_id)
    WHERE next_attempt_at < 'infinity';

-- The order in which operators list and requeue failed campaigns. Rows that are being rebuilt are
-- not in it, so inserting and updating them costs nothing here.
CREATE INDEX failed_failures_idx ON tidemark.failed (status, next_attempt_at, next_seq, campaign_id, projection)
    WHERE status IN ('failed', 'dead');

-- Those who wait for an event across campaigns look here, because they do not know its key.
CREATE INDEX failed_place_idx ON tidemark.failed (projection, next_seq) WHERE status IN ('failed', 'dead');

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
COMMENT ON COLUMN tidemark.failure_log.projection IS 'projection, NULL for acts on a group';
COMMENT ON COLUMN tidemark.failure_log.projection_version IS 'version of its code';
COMMENT ON COLUMN tidemark.failure_log.error_class IS 'as in failed';
COMMENT ON COLUMN tidemark.failure_log.error_code IS 'as in failed';
COMMENT ON COLUMN tidemark.failure_log.error_message IS 'as in failed';
COMMENT ON COLUMN tidemark.failure_log.error_stack IS 'as in failed';
COMMENT ON COLUMN tidemark.failure_log.fingerprint IS 'as in failed';

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
COMMENT ON COLUMN tidemark.resolutions.projection IS 'name without ~next or ~previous';

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
COMMENT ON COLUMN tidemark.pauses.name IS 'projection or campaign, empty for the group';
COMMENT ON COLUMN tidemark.pauses.actor IS 'operator, or the policy';
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
COMMENT ON COLUMN tidemark.crashes.checkpoint IS 'checkpoint at the time of the deaths';
COMMENT ON COLUMN tidemark.crashes.owners IS 'processes that died there, each within an hour of the one before';
COMMENT ON COLUMN tidemark.crashes.marks IS
    'owner to the work it tried alone: {} for the campaign, or projection and seq of an event';
COMMENT ON COLUMN tidemark.crashes.at IS 'time of the last death';

-- Suspects. Every claim checks whether there are any.
CREATE INDEX crashes_suspect_idx ON tidemark.crashes (consumer_group) WHERE cardinality(owners) > 0;

-- Failed campaigns in the groups by which they are counted, the longest failing first. Rows that
-- are being rebuilt are not in it, so the index is built quickly.
CREATE INDEX failed_classes_idx ON tidemark.failed (consumer_group, projection, status,
    (coalesce(error_class, '')), first_failed_at)
    WHERE status IN ('failed', 'dead');

-- Jobs that one process at a time does for all processes, by name. The holder of a duty renews it.
-- Nothing is fenced, so after a pause two processes may both believe that they hold it for a
-- moment.
CREATE TABLE tidemark.duties (
    name       text COLLATE "C" PRIMARY KEY,
    owner      text COLLATE "C" NOT NULL,
    expires_at timestamptz      NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE tidemark.duties IS
    'Jobs that one process does for all, such as collecting figures. A lease without a fence.';
COMMENT ON COLUMN tidemark.duties.owner IS 'process that has it';
COMMENT ON COLUMN tidemark.duties.expires_at IS 'end of the lease';

-- Failed campaigns by cause. Operators see them grouped by projection and fingerprint, and open the
-- campaigns of a group, however many there are. Rows that are being rebuilt are not in it, so the
-- index is built quickly.
CREATE INDEX failed_causes_idx ON tidemark.failed (projection, fingerprint, status, next_attempt_at, next_seq,
    campaign_id) WHERE status IN ('failed', 'dead');

-- Like tidemark.waiting. Workers read it at the end of each group, and notify on tidemark_applied only
-- while its time lies ahead.
CREATE SEQUENCE tidemark.awaited AS bigint MINVALUE 0 START 0 CACHE 1;
COMMENT ON SEQUENCE tidemark.awaited IS
    'Time, in milliseconds since 1970, until which a program waits for projections (docs/adr/0013).';

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP SEQUENCE tidemark.awaited;
DROP TABLE tidemark.duties;
DROP TABLE tidemark.crashes;
DROP TABLE tidemark.pauses;
DROP TABLE tidemark.resolutions;
DROP TABLE tidemark.failure_log;
DROP TABLE tidemark.failed;
DROP TABLE tidemark.rebuild_ranges;
DROP TABLE tidemark.rebuilds;
DROP TABLE tidemark.projections;
DROP SEQUENCE tidemark.notify_queue;
DROP SEQUENCE tidemark.waiting;
DROP TABLE tidemark.workers;
DROP TABLE tidemark.leases;
DROP TABLE tidemark.outbox;
DROP TABLE tidemark.consumer_groups;
