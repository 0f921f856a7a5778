-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- One row for each named reader of the journal with a place. A publisher has a row for each topic:
-- every event of the topic up to position is published, or has a row in parked. A projection across
-- campaigns has a row for each partition: topic is the name of its set of tables, publisher is '#'
-- and the partition, and its events up to position are applied, or wait in deferred. A row is leased
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
COMMENT ON COLUMN tidemark.readers.position IS 'every event up to here is published or parked, applied or deferred';
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

-- guard_places keeps the places of projections from roles that only publish: who moves one makes a read
-- model or a process skip events, or react twice.
-- +goose StatementBegin
CREATE FUNCTION tidemark.guard_places() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT has_table_privilege('tidemark.projections', 'UPDATE') THEN
        RAISE EXCEPTION 'role % may not change places of projections', quote_ident(current_user)
            USING ERRCODE = 'insufficient_privilege', HINT = 'change rows of publishers alone; workers have the others';
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER readers_insert BEFORE INSERT ON tidemark.readers
    FOR EACH ROW WHEN (NEW.kind = 'projection') EXECUTE FUNCTION tidemark.guard_places();
CREATE TRIGGER readers_update BEFORE UPDATE ON tidemark.readers
    FOR EACH ROW WHEN (OLD.kind = 'projection' OR NEW.kind = 'projection') EXECUTE FUNCTION tidemark.guard_places();
CREATE TRIGGER readers_delete BEFORE DELETE ON tidemark.readers
    FOR EACH ROW WHEN (OLD.kind = 'projection') EXECUTE FUNCTION tidemark.guard_places();

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
COMMENT ON COLUMN tidemark.relays.host IS 'host name';
COMMENT ON COLUMN tidemark.relays.pid IS 'process id';
COMMENT ON COLUMN tidemark.relays.knows IS 'pairs in its configuration: topic and publisher alternate';
COMMENT ON COLUMN tidemark.relays.started_at IS 'start of the process';
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
COMMENT ON COLUMN tidemark.parked.topic IS 'topic';
COMMENT ON COLUMN tidemark.parked.publisher IS 'publisher';
COMMENT ON COLUMN tidemark.parked.campaign_id IS 'campaign';
COMMENT ON COLUMN tidemark.parked.seq IS 'the event';
COMMENT ON COLUMN tidemark.parked.holds IS 'true if the campaign waits from this event on';
COMMENT ON COLUMN tidemark.parked.position IS 'position of the event, or the place at which the campaign was left';
COMMENT ON COLUMN tidemark.parked.event_id IS 'id of the event';
COMMENT ON COLUMN tidemark.parked.event_type IS 'type of the event';
COMMENT ON COLUMN tidemark.parked.status IS
    'retrying (tried again), parked (waits for an operator) or draining (catches up)';
COMMENT ON COLUMN tidemark.parked.attempt_count IS 'number of refusals';
COMMENT ON COLUMN tidemark.parked.next_attempt_at IS 'time of the next attempt';
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
COMMENT ON COLUMN tidemark.ghosts.topic IS 'topic';
COMMENT ON COLUMN tidemark.ghosts.publisher IS 'publisher';
COMMENT ON COLUMN tidemark.ghosts.position IS 'position of the lost event';
COMMENT ON COLUMN tidemark.ghosts.campaign_id IS 'its campaign';
COMMENT ON COLUMN tidemark.ghosts.event_id IS 'its id';
COMMENT ON COLUMN tidemark.ghosts.seq IS 'its seq';
COMMENT ON COLUMN tidemark.ghosts.seen_at IS 'time at which a relay missed it';

-- Acts of operators, written by log_act in the transaction of the act. At commit the trigger
-- operator_log_link numbers rows without gaps (link) and chains their hashes, so that a missing or
-- changed row shows.
CREATE TABLE tidemark.operator_log (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor         text COLLATE "C" NOT NULL,
    act           text COLLATE "C" NOT NULL,
    reason        text,
    topic         text COLLATE "C",
    publisher     text COLLATE "C",
    campaign_id   text COLLATE "C",
    seq           bigint,
    detail        jsonb,
    way           text COLLATE "C" CHECK (way IN ('cli', 'api', 'page')),
    token_id      bigint,
    address       text COLLATE "C",
    database_user text COLLATE "C" NOT NULL DEFAULT session_user,
    link          bigint UNIQUE,
    hash          bytea
);
COMMENT ON TABLE tidemark.operator_log IS
    'Acts of operators. Append-only, written by tidemark.log_act, with hashes that form a chain.';
COMMENT ON COLUMN tidemark.operator_log.id IS 'number of the row';
COMMENT ON COLUMN tidemark.operator_log.at IS 'time';
COMMENT ON COLUMN tidemark.operator_log.actor IS 'operator';
COMMENT ON COLUMN tidemark.operator_log.act IS 'the act';
COMMENT ON COLUMN tidemark.operator_log.reason IS 'reason of the operator';
COMMENT ON COLUMN tidemark.operator_log.topic IS 'topic';
COMMENT ON COLUMN tidemark.operator_log.publisher IS 'publisher';
COMMENT ON COLUMN tidemark.operator_log.campaign_id IS 'campaign';
COMMENT ON COLUMN tidemark.operator_log.seq IS 'event';
COMMENT ON COLUMN tidemark.operator_log.detail IS 'parameters and outcome';
COMMENT ON COLUMN tidemark.operator_log.way IS 'cli, api or page, NULL for a program';
COMMENT ON COLUMN tidemark.operator_log.token_id IS 'token of the API or the pages';
COMMENT ON COLUMN tidemark.operator_log.address IS 'address of the client';
COMMENT ON COLUMN tidemark.operator_log.database_user IS 'database login, which the caller cannot choose';
COMMENT ON COLUMN tidemark.operator_log.link IS 'number in the chain, without gaps';
COMMENT ON COLUMN tidemark.operator_log.hash IS 'SHA-256 of the previous hash and this row';

CREATE INDEX operator_log_at_idx ON tidemark.operator_log (at);

-- One row: the newest link and the last pruned link. Rows younger than keep are not pruned.
CREATE TABLE tidemark.operator_log_head (
    one         boolean  PRIMARY KEY DEFAULT true CHECK (one),
    link        bigint   NOT NULL DEFAULT 0,
    hash        bytea    NOT NULL DEFAULT '',
    pruned      bigint   NOT NULL DEFAULT 0,
    pruned_hash bytea    NOT NULL DEFAULT '',
    keep        interval NOT NULL DEFAULT '1 day'
);
COMMENT ON TABLE tidemark.operator_log_head IS 'Newest and last pruned link of the chain of operator_log: one row.';
COMMENT ON COLUMN tidemark.operator_log_head.one IS 'always true, so that there is one row';
COMMENT ON COLUMN tidemark.operator_log_head.link IS 'newest link';
COMMENT ON COLUMN tidemark.operator_log_head.hash IS 'its hash';
COMMENT ON COLUMN tidemark.operator_log_head.pruned IS 'last link that was pruned';
COMMENT ON COLUMN tidemark.operator_log_head.pruned_hash IS 'its hash';
COMMENT ON COLUMN tidemark.operator_log_head.keep IS 'rows younger than this are never pruned';

INSERT INTO tidemark.operator_log_head DEFAULT VALUES;

-- hash_log returns the hash of a row whose predecessor has the hash p_previous.
-- +goose StatementBegin
CREATE FUNCTION tidemark.hash_log(p_previous bytea, p_row tidemark.operator_log) RETURNS bytea
    LANGUAGE sql STABLE
    RETURN sha256(p_previous || convert_to(jsonb_build_array(p_row.link, p_row.id, extract(epoch FROM p_row.at),
        p_row.actor,
        p_row.act, p_row.reason, p_row.topic, p_row.publisher, p_row.campaign_id, p_row.seq, p_row.detail, p_row.way,
        p_row.token_id, p_row.address, p_row.database_user)::text, 'UTF8'));
-- +goose StatementEnd

-- walk_log checks up to p_limit rows after the link p_link, whose hash is p_hash. It stops at the
-- first row that breaks the chain.
-- +goose StatementBegin
CREATE FUNCTION tidemark.walk_log(p_link bigint, p_hash bytea, p_limit integer, OUT link bigint, OUT hash bytea,
    OUT fault text)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    r tidemark.operator_log;
BEGIN
    link := p_link;
    hash := p_hash;
    FOR r IN SELECT l.* FROM tidemark.operator_log l WHERE l.link > p_link ORDER BY l.link LIMIT p_limit LOOP
        IF r.link <> link + 1 THEN
            fault := format('link %s is missing before row %s', link + 1, r.id);
            RETURN;
        ELSIF r.hash IS DISTINCT FROM tidemark.hash_log(hash, r) THEN
            fault := format('row %s (link %s) was changed', r.id, r.link);
            RETURN;
        END IF;
        link := r.link;
        hash := r.hash;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- log_act records an act. Roles can write to the log only through it. Empty texts and 0 become
-- NULL.
-- +goose StatementBegin
CREATE FUNCTION tidemark.log_act(p_actor text, p_act text, p_reason text, p_topic text, p_publisher text,
    p_campaign_id text,
        p_seq bigint, p_detail jsonb, p_way text, p_token_id bigint, p_address text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO tidemark.operator_log (actor, act, reason, topic, publisher, campaign_id, seq, detail, way, token_id,
        address)
    VALUES (p_actor, p_act, nullif(p_reason, ''), nullif(p_topic, ''), nullif(p_publisher, ''),
        nullif(p_campaign_id, ''),
        nullif(p_seq, 0), p_detail, nullif(p_way, ''), nullif(p_token_id, 0), nullif(p_address, ''));
END
$$;
-- +goose StatementEnd

-- link_rows links the first 1,000 rows that are not linked yet: others may have left any number. The
-- caller holds the head's lock.
-- +goose StatementBegin
CREATE FUNCTION tidemark.link_rows(head tidemark.operator_log_head) RETURNS tidemark.operator_log_head
    LANGUAGE plpgsql
    SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    before CONSTANT bigint := head.link;
    r tidemark.operator_log;
BEGIN
    FOR r IN SELECT l.* FROM tidemark.operator_log l WHERE l.link IS NULL ORDER BY l.id LIMIT 1000 LOOP
        head.link := head.link + 1;
        r.link := head.link;
        head.hash := tidemark.hash_log(head.hash, r);
        UPDATE tidemark.operator_log l SET link = r.link, hash = head.hash WHERE l.id = r.id;
    END LOOP;
    IF head.link > before THEN
        UPDATE tidemark.operator_log_head h SET link = head.link, hash = head.hash WHERE h.one;
    END IF;
    RETURN head;
END
$$;
-- +goose StatementEnd

-- link_log runs once for each row at COMMIT. The first run links rows of the transaction, and before
-- them those that others have left. The lock on the head is the last one that the transaction takes, so
-- it is held only for the rest of the commit. A session that keeps it holds up no act: after 300 ms
-- the transaction leaves its rows to the next one.
-- +goose StatementBegin
CREATE FUNCTION tidemark.link_log() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET lock_timeout = '300ms' SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    head tidemark.operator_log_head;
BEGIN
    IF current_setting('tidemark.unlinked', true) = pg_current_xact_id()::text
        OR NOT EXISTS (SELECT FROM tidemark.operator_log l WHERE l.id = NEW.id AND l.link IS NULL) THEN
        RETURN NULL;
    END IF;
    SELECT h.* INTO STRICT head FROM tidemark.operator_log_head h WHERE h.one FOR UPDATE;
    PERFORM tidemark.link_rows(head);
    RETURN NULL;
EXCEPTION WHEN lock_not_available THEN
    PERFORM set_config('tidemark.unlinked', pg_current_xact_id()::text, true); -- its other rows do not wait again
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE CONSTRAINT TRIGGER operator_log_link AFTER INSERT ON tidemark.operator_log
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tidemark.link_log();

-- guard_log lets link_log link a row and prune_log delete rows before its anchor. It refuses
-- everything else.
-- +goose StatementBegin
CREATE FUNCTION tidemark.guard_log() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF OLD.link IS NULL AND NEW.link IS NOT NULL
            AND to_jsonb(NEW) - '{link,hash}'::text[] = to_jsonb(OLD) - '{link,hash}'::text[] THEN
            RETURN NEW;
        END IF;
    ELSIF TG_OP = 'DELETE' THEN
        IF OLD.link <= (SELECT h.pruned FROM tidemark.operator_log_head h WHERE h.one) THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION 'tidemark.operator_log is append-only: % is refused', TG_OP
        USING ERRCODE = 'TM009', HINT = 'tidemark.prune_log deletes what is old';
END
$$;
-- +goose StatementEnd

CREATE TRIGGER operator_log_no_update BEFORE UPDATE OR DELETE ON tidemark.operator_log
    FOR EACH ROW EXECUTE FUNCTION tidemark.guard_log();
CREATE TRIGGER operator_log_no_truncate BEFORE TRUNCATE ON tidemark.operator_log
    FOR EACH STATEMENT EXECUTE FUNCTION tidemark.guard_log();

-- prune_log deletes up to p_limit rows that are older than p_age and the head's keep, oldest first,
-- and returns their number. It stops at the first younger row. It refuses rows that break the
-- chain: they are evidence. First it links rows that acts have left. While another session holds the
-- head it does nothing.
-- +goose StatementBegin
CREATE FUNCTION tidemark.prune_log(p_age interval, p_limit integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    head tidemark.operator_log_head;
    n bigint;
    walked record;
BEGIN
    IF p_age IS NULL OR coalesce(p_limit NOT BETWEEN 0 AND 1000000, true) THEN
        RAISE EXCEPTION 'prune_log(%, %)', quote_nullable(p_age), quote_nullable(p_limit)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use an age, and a limit of 0 to 1000000 rows';
    END IF;
    SELECT h.* INTO head FROM tidemark.operator_log_head h WHERE h.one FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    head := tidemark.link_rows(head);
    SELECT count(*) FILTER (WHERE old) INTO n FROM (
        SELECT bool_and(l.at < now() - greatest(p_age, head.keep)) OVER (ORDER BY l.link) AS old
        FROM tidemark.operator_log l WHERE l.link > head.pruned ORDER BY l.link LIMIT p_limit) o;
    SELECT w.* INTO walked FROM tidemark.walk_log(head.pruned, head.pruned_hash, n::integer) w;
    IF walked.fault IS NOT NULL THEN
        RAISE EXCEPTION 'the log of operators does not fit: %', walked.fault
            USING ERRCODE = 'TM009', HINT = 'tidemark doctor says more; nothing is pruned until it is explained';
    END IF;
    UPDATE tidemark.operator_log_head h SET pruned = walked.link, pruned_hash = walked.hash WHERE h.one;
    DELETE FROM tidemark.operator_log l WHERE l.link <= walked.link;
    RETURN n;
END
$$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION tidemark.log_act, tidemark.prune_log, tidemark.link_log, tidemark.link_rows FROM PUBLIC;

-- claim_readers leases the pairs that are free and active, or whose pause is over. If the
-- server's clock has gone back, a lease from the old time is free as soon as its owner is dead: no
-- lease runs that long. Rows are locked in the order of the key. A row that another transaction is
-- writing is skipped.
--
-- A lease that a projection's holder has left behind counts as a death, as for campaigns: not if the
-- owner was seen after half of the lease's last life, has no record, or if the server started since.
-- deaths is 0 unless the last owner has died; marked is the event that it was trying alone, or 0.
-- +goose StatementBegin
CREATE FUNCTION tidemark.claim_readers(p_owner text, p_topics text[], p_publishers text[], p_ttl interval)
    RETURNS TABLE (topic text, publisher text, generation bigint, "position" bigint, error_count integer, wait interval,
        deaths integer, marked bigint)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    WITH free AS MATERIALIZED (
        SELECT f.place, f.died
        FROM (SELECT * FROM unnest(p_topics, p_publishers) AS u (topic, publisher) ORDER BY 1, 2) u CROSS JOIN LATERAL (
            SELECT p.ctid AS place, p.kind = 'projection' AND p.expires_at - p_ttl >= pg_postmaster_start_time()
                AND EXISTS (SELECT FROM tidemark.relays r WHERE r.owner = p.owner
                    AND r.seen_at <= p.expires_at - p_ttl / 2 OFFSET 0) AS died
            FROM tidemark.readers p
            WHERE p.topic = u.topic AND p.publisher = u.publisher AND (p.expires_at <= at
                    OR p.expires_at > at + p_ttl + interval '1 s' AND NOT EXISTS (
                        SELECT FROM tidemark.relays r WHERE r.owner = p.owner AND r.seen_at <= at + interval '1 s'
                            AND r.expires_at > at))
                AND (p.status = 'ACTIVE' OR p.status = 'PAUSED' AND p.paused_until <= at)
            FOR UPDATE SKIP LOCKED
        ) f
    )
    UPDATE tidemark.readers p SET owner = p_owner, generation = p.generation + 1, expires_at = at + p_ttl,
        status = 'ACTIVE',
        reason = NULL, actor = NULL, paused_until = 'infinity', deaths = p.deaths + f.died::integer,
        marked = CASE WHEN p.marked > 0 THEN -p.marked END
    FROM free f WHERE p.ctid = f.place
    RETURNING p.topic, p.publisher, p.generation, p.position, p.error_count, CASE
        WHEN p.next_attempt_at > at THEN p.next_attempt_at - at ELSE interval '0' END,
        CASE WHEN f.died THEN p.deaths ELSE 0 END, coalesce(-p.marked, 0);
END
$$;
-- +goose StatementEnd

-- move_readers moves the positions of pairs that the caller still holds, extends or releases
-- their leases, and returns those pairs. Positions never go back. It first locks rows in the order
-- of the key, then writes in a statement of its own whose snapshot has the locked rows (as in
-- advance). p_published counts the events sent. Sending any clears the pair's error.
-- +goose StatementBegin
CREATE FUNCTION tidemark.move_readers(p_owner text, p_topics text[], p_publishers text[], p_generations bigint[],
    p_positions bigint[], p_published bigint[],
        p_release boolean[], p_ttl interval) RETURNS TABLE (topic text, publisher text)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    places tid[];
    positions bigint[];
    sent bigint[];
    releases boolean[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true); -- events of a position lost in a server crash are sent again
    SELECT array_agg(h.place), array_agg(u.position), array_agg(u.published), array_agg(u.release)
        INTO places, positions, sent, releases
    FROM (
        SELECT * FROM unnest(p_topics, p_publishers, p_generations, p_positions, p_published, p_release)
            AS u (topic, publisher, generation, position, published, release) ORDER BY 1, 2
    ) u
    CROSS JOIN LATERAL (
        SELECT p.ctid AS place FROM tidemark.readers p
        WHERE p.topic = u.topic AND p.publisher = u.publisher AND p.generation = u.generation AND p.owner = p_owner
        FOR UPDATE
    ) h;
    RETURN QUERY
    UPDATE tidemark.readers p
    SET position = greatest(p.position, m.position), published_count = p.published_count + m.published,
        last_published_at = CASE WHEN m.published > 0 THEN clock_timestamp() ELSE p.last_published_at END,
        error_count = CASE WHEN m.published > 0 THEN 0 ELSE p.error_count END,
        failing_since = CASE WHEN m.published > 0 THEN NULL ELSE p.failing_since END,
        next_attempt_at = CASE WHEN m.published > 0 THEN '-infinity' ELSE p.next_attempt_at END,
        expires_at = CASE WHEN m.release THEN '-infinity' ELSE clock_timestamp() + p_ttl END,
        deaths = CASE WHEN m.release THEN 0 ELSE p.deaths END, marked = CASE WHEN NOT m.release THEN p.marked END
    FROM unnest(places, positions, sent, releases) AS m (place, position, published, release)
    WHERE p.ctid = m.place
    RETURNING p.topic, p.publisher;
END
$$;
-- +goose StatementEnd

-- advance_reader moves the place of a partition of a projection and renews its lease. If the caller
-- does not hold it, the place has moved, or the database is not the instance that the caller has read, it
-- fails the transaction with TM010. p_events and p_hash
-- are the number and the hash of the events on the way. Who moves the place, or has survived the event
-- that it tried alone, is no longer suspect.
-- +goose StatementBegin
CREATE FUNCTION tidemark.advance_reader(p_owner text, p_topic text, p_publisher text, p_generation bigint,
    p_from bigint, p_to bigint, p_events bigint, p_hash bigint, p_ttl interval, p_instance text) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE tidemark.readers r
    SET position = p_to, applied = r.applied + p_events, applied_hash = r.applied_hash # p_hash,
        expires_at = clock_timestamp() + p_ttl,
        deaths = CASE WHEN p_to > p_from OR r.marked > 0 THEN 0 ELSE r.deaths END,
        marked = CASE WHEN p_to <= p_from AND r.marked <= 0 THEN r.marked END
    WHERE r.topic = p_topic AND r.publisher = p_publisher AND r.owner = p_owner AND r.generation = p_generation
        AND r.position = p_from AND tidemark.instance() = p_instance;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the place of % % is lost', p_topic, p_publisher
            USING ERRCODE = 'TM010', HINT = 'another process has taken over, or another database: drop the work, claim again';
    END IF;
END
$$;
-- +goose StatementEnd

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP FUNCTION tidemark.advance_reader;
DROP FUNCTION tidemark.move_readers;
DROP FUNCTION tidemark.claim_readers;
DROP FUNCTION tidemark.prune_log;
DROP FUNCTION tidemark.log_act;
DROP FUNCTION tidemark.walk_log;
DROP FUNCTION tidemark.hash_log;
DROP TABLE tidemark.operator_log;
DROP FUNCTION tidemark.guard_log;
DROP FUNCTION tidemark.link_log;
DROP FUNCTION tidemark.link_rows;
DROP TABLE tidemark.operator_log_head;
DROP TABLE tidemark.ghosts;
DROP TABLE tidemark.parked;
DROP TABLE tidemark.relays;
DROP TABLE tidemark.readers;
DROP FUNCTION tidemark.guard_places;
