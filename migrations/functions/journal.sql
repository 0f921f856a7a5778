-- The journal as tables: it is append-only, is read up to a floor, and has histories.

-- find_event returns the event with an id, by one probe of journal_position_idx and one of
-- journal_given_id_idx. It is inlined.
-- The inner queries rule out other indexes, even while the planner believes the table is empty. Where
-- the hash has no statistics, the planner expects half a percent of the journal for = alone, and JIT.
CREATE OR REPLACE FUNCTION tidemark.find_event(p_campaign_id text, p_event_id uuid) RETURNS SETOF tidemark.journal
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

-- begin_change lets the transaction change the journal until end_change.
CREATE OR REPLACE FUNCTION tidemark.begin_change(p_act text) RETURNS void
    LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO tidemark.journal_changes (xid, act) VALUES (pg_current_xact_id(), p_act);
END;
REVOKE ALL ON FUNCTION tidemark.begin_change FROM PUBLIC;

-- end_change ends what begin_change began.
CREATE OR REPLACE FUNCTION tidemark.end_change() RETURNS void
    LANGUAGE sql
BEGIN ATOMIC
    DELETE FROM tidemark.journal_changes c WHERE c.xid = pg_current_xact_id();
END;
REVOKE ALL ON FUNCTION tidemark.end_change FROM PUBLIC;

-- refuse_change lets tidemark.erase through (erasure_events.sql), which keeps an event's place,
-- type, id and times, and tidemark.archive and restore (archives.sql): an archive deletes events or
-- leaves stubs, with version 0, and a restore deletes stubs. Roles that do not own the tables may
-- not change them at all.
CREATE OR REPLACE FUNCTION tidemark.refuse_change() RETURNS trigger
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
CREATE OR REPLACE TRIGGER journal_no_update BEFORE UPDATE ON tidemark.journal
    FOR EACH ROW EXECUTE FUNCTION tidemark.refuse_change();
CREATE OR REPLACE TRIGGER journal_no_delete BEFORE DELETE ON tidemark.journal
    FOR EACH STATEMENT EXECUTE FUNCTION tidemark.refuse_change();
CREATE OR REPLACE TRIGGER journal_deleted AFTER DELETE ON tidemark.journal REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION tidemark.refuse_change();
CREATE OR REPLACE TRIGGER journal_no_truncate BEFORE TRUNCATE ON tidemark.journal
    FOR EACH STATEMENT EXECUTE FUNCTION tidemark.refuse_change();
CREATE OR REPLACE TRIGGER event_tags_no_update BEFORE UPDATE OR DELETE ON tidemark.event_tags
    FOR EACH ROW EXECUTE FUNCTION tidemark.refuse_change();
CREATE OR REPLACE TRIGGER event_tags_no_truncate BEFORE TRUNCATE ON tidemark.event_tags
    FOR EACH STATEMENT EXECUTE FUNCTION tidemark.refuse_change();

-- read_floor returns the highest position below which no append is in flight. Rows up to it that a
-- *later* statement selects are complete. Writers take a shared lock on the sequence's last value
-- before they call nextval, so the lowest such key is below every position that is not yet visible.
-- The order matters: read the last value first, then the locks, each with its own snapshot.
CREATE OR REPLACE FUNCTION tidemark.read_floor() RETURNS bigint
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

-- instance identifies what a process may remember of the database: the history, and the start of the
-- server, before which another data directory may have been put in its place. It is NULL if keep_history has
-- not begun a history yet. On a standby it has the newest history that has arrived. It reads one row, and a
-- file of the server. Each page and each move of a place calls it, so it is one function with one statement.
CREATE OR REPLACE FUNCTION tidemark.instance() RETURNS text
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

-- history returns the history of instance.
CREATE OR REPLACE FUNCTION tidemark.history() RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN split_part(tidemark.instance(), '/', 1);
END
$$;

-- keep_history makes sure that the present history has begun, notes the writer floor, and returns the
-- instance. Workers and relays call it each second, and programs that hand out cursors when they read, in a
-- short transaction: others wait for the session that begins a history, 300 ms at most.
CREATE OR REPLACE FUNCTION tidemark.keep_history() RETURNS text
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

-- resume returns the position from which a reader goes on that has seen the events of a history up to
-- p_position: that position, or an earlier one if the present journal may have other events up to it. A
-- history of '' stands for the present one. Nothing is known of a history that this database has not seen.
CREATE OR REPLACE FUNCTION tidemark.resume(p_position bigint, p_history text) RETURNS bigint
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
