-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
-- Each migration resolves names in pg_catalog alone, then restores the path that goose needs to
-- find its table.
SET LOCAL client_encoding = 'UTF8'; -- this file has letters beyond ASCII

CREATE SCHEMA tidemark;

CREATE TYPE tidemark.intent AS ENUM ('projection_and_replay', 'replay_only', 'audit_only');

-- Positions start at 1. nextval is called here once, so that last_value is always a true lower
-- bound of later positions (the writer floor). CACHE must stay 1: a session hands out cached values
-- long after readers have passed them. A position above 48 bits would change the namespace of the
-- advisory lock that names it.
CREATE SEQUENCE tidemark.journal_position AS bigint MINVALUE 0 START 0 CACHE 1 MAXVALUE 281474976710655;
SELECT nextval('tidemark.journal_position');
COMMENT ON SEQUENCE tidemark.journal_position IS 'Positions of events.';

-- Wide columns of fixed length come first: rows then have no padding (docs/adr/0019). In an append
-- seq is computed before position, so a refused one takes no position.
CREATE TABLE tidemark.journal (
    seq            bigint           NOT NULL,
    position       bigint           NOT NULL,
    recorded_at    timestamptz      NOT NULL,
    occurred_at    timestamptz      NOT NULL,
    event_id       uuid             NOT NULL,
    payload_bytes  integer          NOT NULL,
    event_version  integer          NOT NULL,
    intent         tidemark.intent  NOT NULL,
    campaign_id    text COLLATE "C" NOT NULL,
    event_type     text COLLATE "C" NOT NULL,
    aggregate_type text,
    aggregate_id   text,
    actor          text,
    tags           text[],
    payload        jsonb            NOT NULL,
    metadata       jsonb,
    PRIMARY KEY (campaign_id, seq)
);
COMMENT ON TABLE tidemark.journal IS
    'Events. Append-only, written only by tidemark.append and its variants. Only tidemark.erase, archive and restore change them.';
COMMENT ON COLUMN tidemark.journal.seq IS 'number in the campaign: 1, 2, 3, …, without gaps';
COMMENT ON COLUMN tidemark.journal.position IS 'place in the whole journal, ascending with gaps';
COMMENT ON COLUMN tidemark.journal.event_id IS 'id, unique in the campaign. A repeated append with it changes nothing';
COMMENT ON COLUMN tidemark.journal.event_type IS 'name at the time of the append';
COMMENT ON COLUMN tidemark.journal.event_version IS
    'version of the payload''s shape, 0 for the stub of archived events';
COMMENT ON COLUMN tidemark.journal.intent IS 'projection_and_replay, replay_only or audit_only';
COMMENT ON COLUMN tidemark.journal.aggregate_type IS 'kind of the thing that the event changes';
COMMENT ON COLUMN tidemark.journal.aggregate_id IS 'id of the thing that the event changes';
COMMENT ON COLUMN tidemark.journal.actor IS 'person or program that caused the event';
COMMENT ON COLUMN tidemark.journal.tags IS 'keys that conditions select by, NULL without tags';
COMMENT ON COLUMN tidemark.journal.payload IS 'content, a JSON object';
COMMENT ON COLUMN tidemark.journal.metadata IS 'JSON object beside the content, such as a traceparent';
COMMENT ON COLUMN tidemark.journal.payload_bytes IS 'approximate size in memory in bytes, bounds a read';
COMMENT ON COLUMN tidemark.journal.occurred_at IS 'time of the fact';
COMMENT ON COLUMN tidemark.journal.recorded_at IS 'time of the append';

-- Unique: a copy whose sequence is behind would hand positions out twice (migrations/functions/copies.sql).
CREATE UNIQUE INDEX journal_position_idx ON tidemark.journal (position);

-- An id that tidemark.append makes ends with the event's position, so this index has only ids that
-- callers gave. It need not be unique: append looks ids up under the campaign's lock, and an append
-- whose snapshot is older than the lock violates the primary key (docs/adr/0019).
CREATE INDEX journal_given_id_idx ON tidemark.journal (uuid_hash_extended(event_id, hashtextextended(campaign_id, 0)))
    WHERE substr(uuid_send(event_id), 11) <> substr(int8send(position), 3);

-- Stubs of archived campaigns (migrations/functions/archives.sql). Other events cost nothing here.
CREATE INDEX journal_stub_idx ON tidemark.journal (campaign_id) WHERE event_version = 0;

-- Index of tags for conditions. tidemark.append writes it for events that have tags
-- (docs/adr/0008).
CREATE TABLE tidemark.event_tags (
    tag        text COLLATE "C" NOT NULL,
    event_type text COLLATE "C" NOT NULL,
    position   bigint           NOT NULL,
    PRIMARY KEY (tag, event_type, position)
);
COMMENT ON TABLE tidemark.event_tags IS
    'Index of tags for conditions: one row for each tag of an event (docs/adr/0008). Append-only.';

-- Transactions that may change the journal, as long as tidemark.erase, archive or restore is at work in them.
-- Only these write it, so no setting of a session lets a change through.
CREATE TABLE tidemark.journal_changes (
    xid xid8 PRIMARY KEY,
    act text COLLATE "C" NOT NULL CHECK (act IN ('erase', 'archive', 'restore'))
);
COMMENT ON TABLE tidemark.journal_changes IS
    'Transactions that may change the journal now. Only tidemark.erase, archive and restore write it.';
COMMENT ON COLUMN tidemark.journal_changes.act IS 'erase, archive or restore';

-- Histories of the journal. A crash that loses commits, a failover, and the restore of a backup begin a
-- new one: from then on the same positions may have other events. Cursors carry the history that they
-- are from. The newest row notes the writer floor, at most once a second. Commits are replayed in their
-- order, so where the row says a position, the journal has all events up to it: later histories share
-- them with this one. Pages keep room for the versions of a row (HOT).
CREATE TABLE tidemark.histories (
    number   bigint           PRIMARY KEY,
    history  text COLLATE "C" NOT NULL UNIQUE,
    began_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    position bigint           NOT NULL,
    noted_at timestamptz      NOT NULL DEFAULT '-infinity'
) WITH (
    fillfactor = 25
);
COMMENT ON TABLE tidemark.histories IS
    'Histories of the journal: a failover, a restore or a crash that may have lost commits begins a new one.';
COMMENT ON COLUMN tidemark.histories.history IS 'random id, which cursors carry';
COMMENT ON COLUMN tidemark.histories.began_at IS 'time at which a session first saw it';
COMMENT ON COLUMN tidemark.histories.position IS 'writer floor: later histories have the same events up to here';

-- Crash recovery, promotion and physical restore reset an unlogged table, a clean restart keeps it. A
-- copy of the database carries the row, so it says which database it was made in.
CREATE UNLOGGED TABLE tidemark.incarnation (
    one        boolean          PRIMARY KEY DEFAULT true CHECK (one),
    history    text COLLATE "C" NOT NULL,
    system_id  bigint           NOT NULL,
    database   oid              NOT NULL,
    journal    oid              NOT NULL
);
COMMENT ON TABLE tidemark.incarnation IS
    'The present history: one row, or none after a crash, a promotion or a physical restore (unlogged).';
COMMENT ON COLUMN tidemark.incarnation.one IS 'always true, so that there is one row';
COMMENT ON COLUMN tidemark.incarnation.history IS 'the history, a row of histories';
COMMENT ON COLUMN tidemark.incarnation.system_id IS 'cluster in which it began: pg_control_system()';
COMMENT ON COLUMN tidemark.incarnation.database IS 'oid of the database in which it began';
COMMENT ON COLUMN tidemark.incarnation.journal IS 'oid of tidemark.journal there';

-- limits bounds an event, a call and a transaction. It has one row, which only the schema's owner
-- changes. The CHECKs stay below the limits of Postgres itself.
CREATE TABLE tidemark.limits (
    only_row                  boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    payload_bytes             integer NOT NULL DEFAULT 1048576 CHECK (payload_bytes BETWEEN 2 AND 67108864),
    payload_depth             integer NOT NULL DEFAULT 128 CHECK (payload_depth BETWEEN 1 AND 1000),
    metadata_bytes            integer NOT NULL DEFAULT 65536 CHECK (metadata_bytes BETWEEN 2 AND 67108864),
    tags                      integer NOT NULL DEFAULT 64 CHECK (tags BETWEEN 0 AND 1024),
    tag_bytes                 integer NOT NULL DEFAULT 256 CHECK (tag_bytes BETWEEN 1 AND 1024),
    campaign_id_bytes         integer NOT NULL DEFAULT 256 CHECK (campaign_id_bytes BETWEEN 1 AND 1024),
    events_per_call           integer NOT NULL DEFAULT 10000 CHECK (events_per_call BETWEEN 1 AND 100000),
    campaigns_per_transaction integer NOT NULL DEFAULT 1000 CHECK (campaigns_per_transaction BETWEEN 1 AND 10000)
);
COMMENT ON TABLE tidemark.limits IS
    'Limits of events, calls and transactions: one row, which only the owner of the schema changes.';
COMMENT ON COLUMN tidemark.limits.only_row IS 'always true, so that there is one row';
COMMENT ON COLUMN tidemark.limits.payload_bytes IS 'maximum bytes in a payload';
COMMENT ON COLUMN tidemark.limits.payload_depth IS 'maximum depth of objects and arrays in a payload or metadata';
COMMENT ON COLUMN tidemark.limits.metadata_bytes IS 'maximum bytes in metadata';
COMMENT ON COLUMN tidemark.limits.tags IS 'maximum tags of an event';
COMMENT ON COLUMN tidemark.limits.tag_bytes IS 'maximum bytes in a tag';
COMMENT ON COLUMN tidemark.limits.campaign_id_bytes IS 'maximum bytes in a campaign id';
COMMENT ON COLUMN tidemark.limits.events_per_call IS 'maximum events in one call';
COMMENT ON COLUMN tidemark.limits.campaigns_per_transaction IS 'maximum campaigns in a transaction';
INSERT INTO tidemark.limits DEFAULT VALUES;

-- Appends that are still to be made (docs/adr/0012). Rows are inserted and deleted. They are updated when an
-- append is refused, moved to another time, or erased in part.
CREATE TABLE tidemark.scheduled (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    campaign_id  text COLLATE "C" NOT NULL,
    due_at       timestamptz      NOT NULL,
    attempt_at   timestamptz      NOT NULL,
    events       jsonb            NOT NULL,
    scheduled_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    scheduled_by text COLLATE "C",
    attempts     integer          NOT NULL DEFAULT 0,
    error        text,
    timer        text COLLATE "C",
    given_id     uuid,
    other_ids    uuid[]
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.5,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE tidemark.scheduled IS
    'Appends that are still to be made: a row for each call of tidemark.append_at (docs/adr/0012).';
COMMENT ON COLUMN tidemark.scheduled.id IS 'number of the append, in the order of scheduling';
COMMENT ON COLUMN tidemark.scheduled.campaign_id IS 'campaign that gets the events';
COMMENT ON COLUMN tidemark.scheduled.due_at IS 'time from which the events are to be appended';
COMMENT ON COLUMN tidemark.scheduled.attempt_at IS 'due_at, or the time of the next attempt after a refusal';
COMMENT ON COLUMN tidemark.scheduled.events IS 'the events as tidemark.append takes them, each with its id';
COMMENT ON COLUMN tidemark.scheduled.scheduled_at IS 'time of the call';
COMMENT ON COLUMN tidemark.scheduled.scheduled_by IS 'process that scheduled it, NULL for an application';
COMMENT ON COLUMN tidemark.scheduled.attempts IS 'attempts that were refused';
COMMENT ON COLUMN tidemark.scheduled.error IS 'reason of the last refusal';
COMMENT ON COLUMN tidemark.scheduled.timer IS
    'name by which its process replaces or cancels it: process, length of the key, key, timer. NULL: none';
COMMENT ON COLUMN tidemark.scheduled.given_id IS
    'the first id that the caller gave an event, by which a repeated call is known. NULL: none';
COMMENT ON COLUMN tidemark.scheduled.other_ids IS 'further ids that the caller gave. NULL: none';

CREATE INDEX scheduled_due_idx ON tidemark.scheduled (attempt_at, id);
CREATE INDEX scheduled_campaign_idx ON tidemark.scheduled (campaign_id, attempt_at, id);
CREATE INDEX scheduled_timer_idx ON tidemark.scheduled (timer) WHERE timer IS NOT NULL;
CREATE UNIQUE INDEX scheduled_given_id_idx ON tidemark.scheduled (campaign_id, given_id) WHERE given_id IS NOT NULL;
CREATE INDEX scheduled_other_ids_idx ON tidemark.scheduled USING gin (other_ids)
    WITH (fastupdate = off) WHERE other_ids IS NOT NULL; -- each call looks, and a pending list is read as a whole
CREATE INDEX scheduled_refused_idx ON tidemark.scheduled (attempt_at, id) WHERE attempts > 0;

-- The time, in milliseconds since 1970, at which a sleeping worker looks for due appends. An append
-- that is due earlier wakes it (docs/adr/0002).
CREATE SEQUENCE tidemark.next_look AS bigint MINVALUE 0 START 0 CACHE 1;
COMMENT ON SEQUENCE tidemark.next_look IS
    'Time, in milliseconds since 1970, at which a sleeping worker looks for due appends (docs/adr/0002).';

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP SEQUENCE tidemark.next_look;
DROP TABLE tidemark.scheduled;
DROP TABLE tidemark.limits;
DROP TABLE tidemark.incarnation;
DROP TABLE tidemark.histories;
DROP TABLE tidemark.journal_changes;
DROP TABLE tidemark.event_tags;
DROP TABLE tidemark.journal;
DROP SEQUENCE tidemark.journal_position;
DROP TYPE tidemark.intent;
DROP SCHEMA tidemark;
