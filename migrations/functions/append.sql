-- Appends to one campaign.

-- refuse_version raises TM001: the campaign is not at the expected seq. It never returns. Its
-- return type lets it be used where a seq is expected.
CREATE OR REPLACE FUNCTION tidemark.refuse_version(p_campaign_id text, p_expected bigint, p_actual bigint)
    RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'campaign % is at seq %, the append expects it at %', left(p_campaign_id, 64), p_actual, p_expected
        USING ERRCODE = 'TM001', HINT = 'read the new events, decide again, append again',
            DETAIL = jsonb_build_object('campaign', left(p_campaign_id, 256), 'expected', p_expected, 'actual',
                p_actual)::text;
END
$$;

-- refuse_archived raises TM014: the campaign's events are in an archive (archives.sql).
-- The stub's version 0, which no append can write, says so. It never returns, as refuse_version.
CREATE OR REPLACE FUNCTION tidemark.refuse_archived(p_campaign_id text, p_metadata jsonb) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'campaign % is archived in %', left(p_campaign_id, 64), p_metadata #>> '{$archived,object}'
        USING ERRCODE = 'TM014', HINT =
            'ask for it with tidemark.ask_restore, or bring it back with `tidemark campaign restore`, then try again',
            DETAIL = jsonb_build_object('campaign', left(p_campaign_id, 256), 'object',
                p_metadata #>> '{$archived,object}')::text;
END
$$;

-- refuse_position raises TM016: the position that an append got belongs to another event, because the
-- sequence is behind the journal. It never returns, as refuse_version. Sequences are not rolled back, so
-- refused appends would move this one past the journal's positions, but perhaps not past places of
-- readers, who would never see what follows. So hold_back puts the sequence back to where it was.
CREATE OR REPLACE FUNCTION tidemark.refuse_position() RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM tidemark.hold_back();
    RAISE EXCEPTION 'the sequence tidemark.journal_position is behind the journal: it has handed out a position that is taken'
        USING ERRCODE = 'TM016', HINT =
            'this database is a copy without the values of its sequences: run `tidemark copy repair`, then try again';
END
$$;

-- first_position returns the first position, for a sequence that has never been called: in a copy of an
-- empty schema it begins at 0. It raises TM016 if the database has positions already.
CREATE OR REPLACE FUNCTION tidemark.first_position() RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN CASE WHEN tidemark.hold_back() THEN tidemark.refuse_position()
        ELSE nextval('tidemark.journal_position') END;
END
$$;

-- made_id returns a UUIDv7 (RFC 9562): milliseconds, then a 12-bit counter that carries into them,
-- then p_tail as text: the variant and 14 random bits, then 48 bits, which in the journal are the
-- event's position (tidemark.find_event).
CREATE OR REPLACE FUNCTION tidemark.made_id(p_ms bigint, p_ord bigint, p_tail text) RETURNS uuid
    LANGUAGE sql IMMUTABLE
    RETURN (lpad(to_hex((p_ms + (p_ord >> 12) << 16) | 28672 | (p_ord & 4095)), 16, '0') || p_tail)::uuid;

-- appended_before returns true if all events of an append are in the journal of the campaign, by their ids, and
-- false if none is. It raises TM002 for another content, or for an id that is given twice, and TM003 for some
-- of them. An erased event has only its type left. A repeat has a trace of its own, which may differ.
CREATE OR REPLACE FUNCTION tidemark.appended_before(p_campaign_id text, p_events jsonb) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    n CONSTANT integer := jsonb_array_length(p_events);
    known integer;
    different bigint;
BEGIN
    SELECT count(*), min(e.ord) FILTER (WHERE j.event_type IS DISTINCT FROM e.type
        OR (j.metadata ? '$erased') IS NOT TRUE AND (j.payload IS DISTINCT FROM coalesce(e.payload, '{}')
        OR j.event_version IS DISTINCT FROM coalesce(e.version, 1) OR j.intent::text IS DISTINCT
            FROM coalesce(e.intent, 'projection_and_replay')
        OR j.metadata IS DISTINCT FROM e.metadata
            AND nullif(j.metadata - '{traceparent,tracestate}'::text[], '{}')
            IS DISTINCT FROM nullif(e.metadata - '{traceparent,tracestate}'::text[], '{}')
        OR j.tags IS DISTINCT FROM nullif(e.tags, '{}') OR j.actor IS DISTINCT FROM nullif(e.actor, '')
        OR j.aggregate_type IS DISTINCT FROM nullif(e.aggregate_type, '')
        OR j.aggregate_id IS DISTINCT FROM nullif(e.aggregate_id, '')
        OR j.occurred_at IS DISTINCT FROM coalesce(e.occurred_at, j.occurred_at)))
    INTO known, different
    FROM ROWS FROM (jsonb_to_recordset(p_events) AS (id uuid, type text, version integer, intent text,
        aggregate_type text, aggregate_id text,
        actor text, tags text[], payload jsonb, metadata jsonb, occurred_at timestamptz)) WITH ORDINALITY
        AS e (id, type, version, intent, aggregate_type, aggregate_id, actor, tags, payload, metadata,
            occurred_at, ord)
    CROSS JOIN LATERAL tidemark.find_event(p_campaign_id, e.id) AS j;
    IF different IS NOT NULL THEN
        RAISE EXCEPTION 'event % of campaign %: its id % was appended before with another content', different - 1,
            left(p_campaign_id, 64), p_events -> (different::integer - 1) ->> 'id'
            USING ERRCODE = 'TM002', HINT = 'give each new event an id of its own';
    ELSIF known > 0 AND known < n THEN
        RAISE EXCEPTION 'append to campaign %: % of its % events are in the journal already, the others are new',
            left(p_campaign_id, 64), known, n
            USING ERRCODE = 'TM003', HINT = 'repeat an append with exactly the events it had at first';
    ELSIF known = 0 AND (SELECT count(e.event ->> 'id') <> count(DISTINCT (e.event ->> 'id')::uuid)
        FROM jsonb_array_elements(p_events) AS e (event)) THEN
        RAISE EXCEPTION 'append to campaign %: two of its events have the same id', left(p_campaign_id, 64)
            USING ERRCODE = 'TM002', HINT = 'give each new event an id of its own';
    END IF;
    RETURN known > 0;
END
$$;

-- append_rows numbers events and writes them. The caller holds the locks. Users call append or
-- append_all instead. Only erasures and imports pass p_reserved: see check_event.
CREATE OR REPLACE FUNCTION tidemark.append_rows(p_campaign_id text, p_events jsonb, p_expect bigint,
    p_reserved boolean DEFAULT false)
    RETURNS TABLE (seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    n CONSTANT integer := jsonb_array_length(p_events);
    at timestamptz;
    ms bigint;
    random_bits text;
    head bigint;
    made integer;
    good CONSTANT boolean := tidemark.check_types(p_campaign_id, p_events);
BEGIN
    SELECT CASE WHEN j.event_version = 0 THEN tidemark.refuse_archived(p_campaign_id, j.metadata) ELSE j.seq END
    INTO head FROM tidemark.journal j WHERE j.campaign_id = p_campaign_id ORDER BY j.seq DESC LIMIT 1;
    head := coalesce(head, 0);
    -- An event that is in the journal already is returned with its seq. So an append whose outcome
    -- is unknown can be repeated, whatever it expected at first.
    IF jsonb_path_exists(p_events, '$[*].id') AND tidemark.appended_before(p_campaign_id, p_events) THEN
        RETURN QUERY SELECT j.seq, j.position, j.event_id, true
            FROM jsonb_array_elements(p_events) WITH ORDINALITY AS e (event, ord)
            CROSS JOIN LATERAL tidemark.find_event(p_campaign_id, (e.event ->> 'id')::uuid) AS j
            ORDER BY e.ord;
        RETURN;
    END IF;

    at := tidemark.hold_floor();
    ms := date_part('epoch', at) * 1000;
    random_bits := substr(gen_random_uuid()::text, 20, 4);
    IF p_expect <> head THEN
        PERFORM tidemark.refuse_version(p_campaign_id, p_expect, head);
    END IF;
    RETURN QUERY
        -- The position comes before the id, which ends with it.
        INSERT INTO tidemark.journal AS j (campaign_id, seq, position, event_id, event_type, event_version, intent,
            aggregate_type, aggregate_id, actor, tags, payload, metadata, payload_bytes, occurred_at, recorded_at)
        SELECT p_campaign_id, head + e.ord,
            coalesce(nullif(nextval('tidemark.journal_position'), 0), tidemark.first_position()),
            coalesce(e.id, tidemark.made_id(ms, e.ord, random_bits
                || lpad(to_hex(currval('tidemark.journal_position')), 12, '0'))), e.type, coalesce(e.version, 1),
            CASE WHEN tidemark.event_within(e.event) OR tidemark.check_event(p_campaign_id, e.ord,
                e.event, p_reserved) THEN coalesce(e.intent, 'projection_and_replay') END::tidemark.intent,
            nullif(e.aggregate_type, ''), nullif(e.aggregate_id, ''), nullif(e.actor, ''), nullif(e.tags, '{}'),
            coalesce(e.payload, '{}'), e.metadata,
            coalesce(pg_column_size(e.payload), 0) + coalesce(pg_column_size(e.metadata), 0),
                coalesce(e.occurred_at, at), at
        FROM ROWS FROM (jsonb_to_recordset(p_events) AS (id uuid, type text, version integer, intent text,
            aggregate_type text, aggregate_id text,
            actor text, tags text[], payload jsonb, metadata jsonb, occurred_at timestamptz),
                jsonb_array_elements(p_events)) WITH ORDINALITY
            AS e (id, type, version, intent, aggregate_type, aggregate_id, actor, tags, payload, metadata,
                occurred_at, event, ord)
        ON CONFLICT (position) DO NOTHING
        RETURNING j.seq, j.position, j.event_id, false;
    GET DIAGNOSTICS made = ROW_COUNT;
    IF made < n THEN
        PERFORM tidemark.refuse_position();
    END IF;
    INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
    SELECT g.name, p_campaign_id, head + n, at, n FROM tidemark.consumer_groups g WHERE g.name > ''
        AND g.state IN ('filing', 'ready');

    IF jsonb_path_exists(p_events, '$[*].tags[*]') THEN
        INSERT INTO tidemark.event_tags (tag, event_type, position)
        SELECT DISTINCT t.tag, j.event_type, j.position
        FROM (
            SELECT * FROM tidemark.journal j WHERE j.campaign_id = p_campaign_id AND j.seq > head
                AND j.seq <= head + n ORDER BY j.seq LIMIT n
        ) j CROSS JOIN LATERAL unnest(j.tags) AS t (tag);
    END IF;

    IF pg_sequence_last_value('tidemark.waiting') > ms THEN
        PERFORM tidemark.wake();
    END IF;
END
$$;

-- append_rows_of_snapshot is append_rows for REPEATABLE READ and SERIALIZABLE, whose snapshot may
-- be older than the lock on the campaign. A seq that is then already taken raises 40001, the error
-- on which clients retry such transactions. So does the lock on the last event, if the campaign was
-- archived meanwhile. The campaign's own lock is held, so nothing else waits for that one.
CREATE OR REPLACE FUNCTION tidemark.append_rows_of_snapshot(p_campaign_id text, p_events jsonb, p_expect bigint)
    RETURNS TABLE (seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    taken text;
BEGIN
    PERFORM FROM tidemark.journal j WHERE j.campaign_id = p_campaign_id ORDER BY j.seq DESC LIMIT 1 FOR SHARE;
    RETURN QUERY SELECT * FROM tidemark.append_rows(p_campaign_id, p_events, p_expect);
EXCEPTION WHEN unique_violation THEN
    GET STACKED DIAGNOSTICS taken = CONSTRAINT_NAME;
    IF taken <> 'journal_pkey' THEN
        RAISE;
    END IF;
    RAISE EXCEPTION 'campaign % has moved since the transaction''s snapshot', left(p_campaign_id, 64)
        USING ERRCODE = '40001', HINT = 'retry the transaction';
END
$$;

-- refuse_call raises TM004 for an invalid call for one campaign.
CREATE OR REPLACE FUNCTION tidemark.refuse_call(p_campaign_id text, p_events jsonb) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    limits CONSTANT integer[] := tidemark.append_limits();
BEGIN
    IF p_campaign_id IS NULL OR p_campaign_id = '' OR octet_length(p_campaign_id) > limits[1] THEN
        RAISE EXCEPTION 'campaign id %: it must have 1 to % bytes (campaign_id_bytes of tidemark.limits)',
            coalesce(quote_literal(left(p_campaign_id, 64)), 'NULL'), limits[1]
            USING ERRCODE = 'TM004';
    ELSIF coalesce(jsonb_typeof(p_events), 'null') <> 'array' THEN
        RAISE EXCEPTION 'append to campaign %: the events are a JSON %, they must be an array of objects',
            left(p_campaign_id, 64), coalesce(jsonb_typeof(p_events), 'null')
            USING ERRCODE = 'TM004';
    END IF;
    RAISE EXCEPTION 'append to campaign %: % events in one call, the limit is % (events_per_call of tidemark.limits)',
        left(p_campaign_id, 64), jsonb_array_length(p_events), limits[2]
        USING ERRCODE = 'TM004', HINT = 'append them in several calls';
END
$$;

-- append adds events to a campaign in the caller's transaction. p_events is an array of objects
-- with "type" and the optional fields "id", "version", "intent", "aggregate_type", "aggregate_id",
-- "actor", "tags", "payload", "metadata" and "occurred_at", a time of RFC 3339. An empty text is none.
-- p_expect is the seq at which the campaign must be: NULL for any, 0 for a campaign without events.
CREATE OR REPLACE FUNCTION tidemark.append(p_campaign_id text, p_events jsonb, p_expect bigint DEFAULT NULL)
    RETURNS TABLE (seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    one CONSTANT jsonb := p_events -> 0;
    taken boolean; -- unused result of lock functions; an assignment is cheaper than a query
    at timestamptz;
BEGIN
    -- The usual call: one event without tags and id. plpgsql prepares each expression and query
    -- anew in each transaction, which is most of the cost of one event. So this path uses as few as
    -- possible.
    IF octet_length(p_campaign_id) BETWEEN 1 AND (tidemark.append_limits())[1] AND jsonb_typeof(p_events) = 'array'
        AND p_events -> 1 IS NULL
        AND NOT one ?| '{tags,id}' AND tidemark.event_fits(one)
            AND current_setting('transaction_isolation') = 'read committed' THEN
        at := CASE WHEN tidemark.lock_untagged(p_campaign_id, one ->> 'type') THEN tidemark.hold_floor() END;
        INSERT INTO tidemark.journal AS j (campaign_id, seq, position, event_id, event_type, event_version, intent,
            aggregate_type, aggregate_id, actor,
            payload, metadata, payload_bytes, occurred_at, recorded_at)
        VALUES (p_campaign_id, coalesce((SELECT CASE
            WHEN h.event_version = 0 THEN tidemark.refuse_archived(p_campaign_id, h.metadata)
            WHEN p_expect <> h.seq THEN tidemark.refuse_version(p_campaign_id, p_expect, h.seq) ELSE h.seq + 1 END
                FROM tidemark.journal h WHERE h.campaign_id = p_campaign_id ORDER BY h.seq DESC LIMIT 1), CASE
                    WHEN p_expect <> 0 THEN tidemark.refuse_version(p_campaign_id, p_expect, 0) ELSE 1 END),
            coalesce(nullif(nextval('tidemark.journal_position'), 0), tidemark.first_position()),
            tidemark.made_id((date_part('epoch', at) * 1000)::bigint, 1,
                substr(gen_random_uuid()::text, 20, 4) || lpad(to_hex(currval('tidemark.journal_position')), 12, '0')),
            one ->> 'type', coalesce((one ->> 'version')::integer, 1),
            coalesce(one ->> 'intent', 'projection_and_replay')::tidemark.intent,
            nullif(one ->> 'aggregate_type', ''), nullif(one ->> 'aggregate_id', ''), nullif(one ->> 'actor', ''),
            coalesce(nullif(one -> 'payload', 'null'), '{}'), nullif(one -> 'metadata', 'null'), pg_column_size(one),
                coalesce((one ->> 'occurred_at')::timestamptz, at), at)
        ON CONFLICT (position) DO NOTHING -- then seq stays NULL
        RETURNING j.seq, j.position, j.event_id, false INTO seq, position, event_id, duplicate;
        INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
        SELECT g.name, p_campaign_id, coalesce(seq, tidemark.refuse_position()), at, 1
        FROM tidemark.consumer_groups g WHERE g.name > ''
            AND g.state IN ('filing', 'ready');
        IF pg_sequence_last_value('tidemark.waiting') -- both sides are always computed
            > (CASE WHEN seq > 0 THEN date_part('epoch', at) * 1000 ELSE tidemark.refuse_position() END) THEN
            PERFORM tidemark.wake();
        END IF;
        RETURN NEXT;
        RETURN;
    END IF;

    IF NOT coalesce(octet_length(p_campaign_id) BETWEEN 1 AND (tidemark.append_limits())[1]
        AND jsonb_typeof(p_events) = 'array', false)
        OR jsonb_array_length(p_events) > (tidemark.append_limits())[2] THEN
        PERFORM tidemark.refuse_call(p_campaign_id, p_events);
    ELSIF one IS NULL THEN
        RETURN;
    END IF;
    -- First the keys that conditions wait for, then the campaign.
    IF jsonb_path_exists(p_events, '$[*].tags[*]') THEN
        taken := tidemark.lock_keys(tidemark.touched_types(p_events), tidemark.touched_tags(p_events), '{}',
            ARRAY[p_campaign_id]);
    ELSIF jsonb_path_query_array(p_events, '$[*].type') <@ jsonb_build_array(one -> 'type') THEN
        taken := tidemark.lock_untagged(p_campaign_id, one ->> 'type');
    ELSE
        PERFORM pg_advisory_xact_lock_shared(t.key) FROM (SELECT DISTINCT tidemark.type_key(e.event ->> 'type') AS key
            FROM jsonb_array_elements(p_events) AS e (event) ORDER BY 1) AS t;
        taken := tidemark.lock_campaign(p_campaign_id);
    END IF;
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RETURN QUERY SELECT * FROM tidemark.append_rows_of_snapshot(p_campaign_id, p_events, p_expect);
    ELSE
        RETURN QUERY SELECT * FROM tidemark.append_rows(p_campaign_id, p_events, p_expect);
    END IF;
END
$$;

-- append with text serves calls with a literal or an untyped parameter. A caller that casts to
-- jsonb itself pays less.
CREATE OR REPLACE FUNCTION tidemark.append(p_campaign_id text, p_events text, p_expect bigint DEFAULT NULL)
    RETURNS TABLE (seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE sql
BEGIN ATOMIC
    SELECT * FROM tidemark.append(p_campaign_id, tidemark.parsed_json(p_events), p_expect);
END;
