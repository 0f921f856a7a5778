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
COMMENT ON COLUMN tidemark.journal.campaign_id IS 'campaign of the event';
COMMENT ON COLUMN tidemark.journal.seq IS 'number in the campaign: 1, 2, 3, …, without gaps';
COMMENT ON COLUMN tidemark.journal.position IS 'place in the whole journal, ascending with gaps';
COMMENT ON COLUMN tidemark.journal.event_id IS 'id, unique in the campaign. A repeated append with it changes nothing';
COMMENT ON COLUMN tidemark.journal.event_type IS 'name at the time of the append';
COMMENT ON COLUMN tidemark.journal.event_version IS 'version of the payload''s shape, 0 for the stub of archived events';
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

-- Unique: a copy whose sequence is behind would hand positions out twice (migrations/00017_copies.sql).
CREATE UNIQUE INDEX journal_position_idx ON tidemark.journal (position);

-- An id that tidemark.append makes ends with the event's position, so this index has only ids that
-- callers gave. It need not be unique: append looks ids up under the campaign's lock, and an append
-- whose snapshot is older than the lock violates the primary key (docs/adr/0019).
CREATE INDEX journal_given_id_idx ON tidemark.journal (uuid_hash_extended(event_id, hashtextextended(campaign_id, 0)))
    WHERE substr(uuid_send(event_id), 11) <> substr(int8send(position), 3);

-- find_event returns the event with an id, by one probe of each of these two indexes. It is inlined.
-- The inner queries rule out other indexes, even while the planner believes the table is empty. Where
-- the hash has no statistics, the planner expects half a percent of the journal for = alone, and JIT.
-- +goose StatementBegin
CREATE FUNCTION tidemark.find_event(p_campaign_id text, p_event_id uuid) RETURNS SETOF tidemark.journal
    LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
    SELECT e.* FROM (
        (SELECT * FROM tidemark.journal j
        WHERE j.position BETWEEN ('x' || right(p_event_id::text, 12))::bit(48)::bigint
            AND ('x' || right(p_event_id::text, 12))::bit(48)::bigint
        ORDER BY j.position LIMIT 1)
        UNION ALL
        (SELECT * FROM tidemark.journal j
        WHERE uuid_hash_extended(j.event_id, hashtextextended(j.campaign_id, 0))
                = uuid_hash_extended(p_event_id, hashtextextended(p_campaign_id, 0))
            AND uuid_hash_extended(j.event_id, hashtextextended(j.campaign_id, 0))
                <= uuid_hash_extended(p_event_id, hashtextextended(p_campaign_id, 0))
            AND uuid_hash_extended(j.event_id, hashtextextended(j.campaign_id, 0))
                >= uuid_hash_extended(p_event_id, hashtextextended(p_campaign_id, 0))
            AND substr(uuid_send(j.event_id), 11) <> substr(int8send(j.position), 3)
        OFFSET 0)
    ) AS e WHERE e.event_id = p_event_id AND e.campaign_id = p_campaign_id;
END;
-- +goose StatementEnd

-- Stubs of archived campaigns (migrations/00016_archives.sql). Other events cost nothing here.
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
COMMENT ON COLUMN tidemark.event_tags.tag IS 'a tag of the event';
COMMENT ON COLUMN tidemark.event_tags.event_type IS 'type of the event';
COMMENT ON COLUMN tidemark.event_tags.position IS 'position of the event';

-- Transactions that may change the journal, as long as tidemark.erase, archive or restore is at work in them.
-- Only these write it, so no setting of a session lets a change through.
CREATE TABLE tidemark.journal_changes (
    xid xid8 PRIMARY KEY,
    act text COLLATE "C" NOT NULL CHECK (act IN ('erase', 'archive', 'restore'))
);
COMMENT ON TABLE tidemark.journal_changes IS
    'Transactions that may change the journal now. Only tidemark.erase, archive and restore write it.';
COMMENT ON COLUMN tidemark.journal_changes.xid IS 'the transaction';
COMMENT ON COLUMN tidemark.journal_changes.act IS 'erase, archive or restore';

-- begin_change lets the transaction change the journal until end_change.
-- +goose StatementBegin
CREATE FUNCTION tidemark.begin_change(p_act text) RETURNS void
    LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO tidemark.journal_changes (xid, act) VALUES (pg_current_xact_id(), p_act);
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION tidemark.end_change() RETURNS void
    LANGUAGE sql
BEGIN ATOMIC
    DELETE FROM tidemark.journal_changes c WHERE c.xid = pg_current_xact_id();
END;
-- +goose StatementEnd

-- refuse_change lets tidemark.erase through (migrations/00014_erasure.sql), which keeps an event's
-- place, type, id and times, and tidemark.archive and restore (migrations/00016_archives.sql): an archive
-- deletes events or leaves stubs, with version 0, and a restore deletes stubs. Roles that do not own the
-- tables may not change them at all.
-- +goose StatementBegin
CREATE FUNCTION tidemark.refuse_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    act CONSTANT text := (SELECT c.act FROM tidemark.journal_changes c WHERE c.xid = pg_current_xact_id());
BEGIN
    IF act IS NULL THEN
        NULL;
    ELSIF TG_TABLE_NAME = 'event_tags' THEN
        IF TG_OP = 'DELETE' AND act = 'erase' THEN
            RETURN OLD;
        END IF;
    ELSIF TG_OP = 'DELETE' AND TG_WHEN = 'BEFORE' THEN
        IF act IN ('archive', 'restore') THEN
            RETURN NULL;
        END IF;
    ELSIF TG_OP = 'DELETE' THEN -- the deleted events once a statement: an archive deletes thousands
        IF NOT EXISTS (SELECT FROM gone g WHERE (act = 'archive') IS DISTINCT FROM (g.event_version > 0)) THEN
            RETURN NULL;
        END IF;
    ELSIF TG_OP = 'UPDATE' THEN
        IF act = 'erase' AND (NEW.campaign_id, NEW.seq, NEW.position, NEW.event_id,
            NEW.event_type, NEW.event_version, NEW.intent, NEW.occurred_at, NEW.recorded_at) = (OLD.campaign_id, OLD.seq,
            OLD.position, OLD.event_id, OLD.event_type, OLD.event_version, OLD.intent, OLD.occurred_at, OLD.recorded_at)
            AND NEW.metadata ? '$erased'
            OR act = 'archive' AND NEW.event_version = 0
            AND (NEW.campaign_id, NEW.seq, NEW.position, NEW.event_id)
                = (OLD.campaign_id, OLD.seq, OLD.position, OLD.event_id)
        THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'tidemark.% is append-only: % is refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'TM009', HINT = 'append an event that corrects the earlier one';
END
$$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION tidemark.begin_change, tidemark.end_change FROM PUBLIC;

CREATE TRIGGER journal_no_update BEFORE UPDATE ON tidemark.journal
    FOR EACH ROW EXECUTE FUNCTION tidemark.refuse_change();
CREATE TRIGGER journal_no_delete BEFORE DELETE ON tidemark.journal
    FOR EACH STATEMENT EXECUTE FUNCTION tidemark.refuse_change();
CREATE TRIGGER journal_deleted AFTER DELETE ON tidemark.journal REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION tidemark.refuse_change();
CREATE TRIGGER journal_no_truncate BEFORE TRUNCATE ON tidemark.journal
    FOR EACH STATEMENT EXECUTE FUNCTION tidemark.refuse_change();
CREATE TRIGGER event_tags_no_update BEFORE UPDATE OR DELETE ON tidemark.event_tags
    FOR EACH ROW EXECUTE FUNCTION tidemark.refuse_change();
CREATE TRIGGER event_tags_no_truncate BEFORE TRUNCATE ON tidemark.event_tags
    FOR EACH STATEMENT EXECUTE FUNCTION tidemark.refuse_change();

-- Advisory lock keys share one space with the application's own. Tidemark's keys carry a namespace
-- in the high 16 bits: 0x7D01 writer floor, 0x7D02 campaign, 0x7D03 registry, 0x7D04 bucket of
-- campaigns, 0x7D05 pruner, 0x7D06 bucket of event types, 0x7D07 tag, 0x7D08 bucket of tags, 0x7D09
-- archives and the beginning of an erasure, 0x7D0A lane of the manifest of archives. The low 48 bits are the
-- floor's position, zero, a lane, or a hash (its low bits for a bucket).

-- +goose StatementBegin
CREATE FUNCTION tidemark.lock_key(namespace integer, value bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (namespace::bigint << 48) | (value & 281474976710655);
-- +goose StatementEnd

-- read_floor returns the highest position below which no append is in flight. Rows up to it that a
-- *later* statement selects are complete. Writers take a shared lock on the sequence's last value
-- before they call nextval, so the lowest such key is below every position that is not yet visible.
-- The order matters: read the last value first, then the locks, each with its own snapshot.
-- +goose StatementBegin
CREATE FUNCTION tidemark.read_floor() RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    last_position bigint;
    lowest_writer bigint;
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION 'tidemark.read_floor needs the primary: a standby has the sequence ahead of the rows, and none of the locks'
            USING ERRCODE = 'TM012', HINT = 'read by position on the primary; campaigns can be read on a standby';
    END IF;
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'tidemark.read_floor needs READ COMMITTED: under % the rows below the floor may be newer than the snapshot',
            upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'TM008', HINT = 'read the journal by position outside of this transaction';
    END IF;
    SELECT last_value INTO last_position FROM tidemark.journal_position;
    SELECT min(((classid::bigint & 65535) << 32) | objid::bigint) INTO lowest_writer
    FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND (classid::bigint >> 16) = 32001 -- 0x7D01
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
    RETURN least(last_position, coalesce(lowest_writer, last_position));
END
$$;
-- +goose StatementEnd

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
COMMENT ON COLUMN tidemark.histories.number IS 'number in the order of time';
COMMENT ON COLUMN tidemark.histories.history IS 'random id, which cursors carry';
COMMENT ON COLUMN tidemark.histories.began_at IS 'time at which a session first saw it';
COMMENT ON COLUMN tidemark.histories.position IS 'writer floor: later histories have the same events up to here';
COMMENT ON COLUMN tidemark.histories.noted_at IS 'time at which the position was noted';

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

-- instance identifies what a process may remember of the database: the history, and the start of the
-- server, before which another data directory may have been put in its place. It is NULL if keep_history has
-- not begun a history yet. On a standby it has the newest history that has arrived. It reads one row, and a
-- file of the server. Each page and each move of a place calls it, so it is one function with one statement.
-- +goose StatementBegin
CREATE FUNCTION tidemark.instance() RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN (SELECT h.history || '/' || extract(epoch FROM pg_postmaster_start_time()) FROM tidemark.histories h
            ORDER BY h.number DESC LIMIT 1);
    END IF;
    RETURN (SELECT i.history || '/' || extract(epoch FROM pg_postmaster_start_time()) FROM tidemark.incarnation i
        WHERE i.one AND i.journal = 'tidemark.journal'::regclass
            AND i.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
            AND i.system_id = (SELECT c.system_identifier FROM pg_control_system() c));
END
$$;
-- +goose StatementEnd

-- history returns the history of instance.
-- +goose StatementBegin
CREATE FUNCTION tidemark.history() RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN split_part(tidemark.instance(), '/', 1);
END
$$;
-- +goose StatementEnd

-- keep_history makes sure that the present history has begun, notes the writer floor, and returns the
-- instance. Workers and relays call it each second, and programs that hand out cursors when they read, in a
-- short transaction: others wait for the session that begins a history, 300 ms at most.
-- +goose StatementBegin
CREATE FUNCTION tidemark.keep_history() RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET lock_timeout = '300ms' SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    made CONSTANT text := encode(substr(uuid_send(gen_random_uuid()), 9), 'hex');
    newest bigint;
BEGIN
    IF current_setting('transaction_read_only')::boolean THEN -- also on a standby
        RETURN tidemark.instance();
    END IF;
    IF tidemark.history() IS NULL THEN
        INSERT INTO tidemark.incarnation AS i
        SELECT true, made, c.system_identifier, d.oid, 'tidemark.journal'::regclass
        FROM pg_control_system() c CROSS JOIN pg_database d WHERE d.datname = current_database()
        ON CONFLICT (one) DO UPDATE SET history = excluded.history, system_id = excluded.system_id,
            database = excluded.database, journal = excluded.journal
        WHERE (i.system_id, i.database, i.journal) <> (excluded.system_id, excluded.database, excluded.journal);
        IF FOUND THEN
            IF current_setting('synchronous_commit') = 'off' THEN -- cursors must not survive their history
                PERFORM set_config('synchronous_commit', 'local', true);
            END IF;
            INSERT INTO tidemark.histories (number, history, position)
            SELECT coalesce(max(h.number), 0) + 1, made, coalesce(max(h.position), 0) FROM tidemark.histories h;
        END IF;
    END IF;
    SELECT h.number INTO newest FROM tidemark.histories h
    WHERE h.history = tidemark.history()
        AND h.noted_at NOT BETWEEN clock_timestamp() - interval '1 s' AND clock_timestamp()
    FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE tidemark.histories h SET position = f.floor, noted_at = clock_timestamp()
        FROM tidemark.read_floor() AS f (floor) WHERE h.number = newest AND h.position < f.floor;
    END IF;
    RETURN tidemark.instance();
END
$$;
-- +goose StatementEnd

-- resume returns the position from which a reader goes on that has seen the events of a history up to
-- p_position: that position, or an earlier one if the present journal may have other events up to it. A
-- history of '' stands for the present one. Nothing is known of a history that this database has not seen.
-- +goose StatementBegin
CREATE FUNCTION tidemark.resume(p_position bigint, p_history text) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    last bigint;
BEGIN
    IF p_history NOT IN ('', tidemark.history()) IS NOT FALSE THEN
        SELECT h.position INTO last FROM tidemark.histories h WHERE h.history = p_history;
        last := coalesce(last, 0);
    END IF;
    RETURN (SELECT least(p_position, last, j.last_value) FROM tidemark.journal_position j);
END
$$;
-- +goose StatementEnd

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP FUNCTION tidemark.resume;
DROP FUNCTION tidemark.keep_history;
DROP FUNCTION tidemark.history;
DROP FUNCTION tidemark.instance;
DROP TABLE tidemark.incarnation;
DROP TABLE tidemark.histories;
DROP FUNCTION tidemark.read_floor;
DROP FUNCTION tidemark.lock_key;
DROP FUNCTION tidemark.find_event;
DROP TABLE tidemark.event_tags;
DROP TABLE tidemark.journal;
DROP FUNCTION tidemark.refuse_change;
DROP FUNCTION tidemark.end_change;
DROP FUNCTION tidemark.begin_change;
DROP TABLE tidemark.journal_changes;
DROP SEQUENCE tidemark.journal_position;
DROP TYPE tidemark.intent;
DROP SCHEMA tidemark;
