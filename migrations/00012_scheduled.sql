-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

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

-- check_repeat raises TM002 or TM003 unless p_events are the events of a scheduled append. An event without
-- an id repeats the one at its place. A repeat has a trace of its own, which may differ.
-- +goose StatementBegin
CREATE FUNCTION tidemark.check_repeat(p_campaign_id text, p_events jsonb, p_scheduled jsonb) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    n CONSTANT integer := jsonb_array_length(p_events);
    known integer;
    different bigint;
BEGIN
    SELECT count(DISTINCT s.ord), min(e.ord) FILTER (WHERE s.type IS DISTINCT FROM e.type
        OR coalesce(s.payload, '{}') IS DISTINCT FROM coalesce(e.payload, '{}')
        OR coalesce(s.version, 1) IS DISTINCT FROM coalesce(e.version, 1)
        OR coalesce(s.intent, 'projection_and_replay') IS DISTINCT FROM coalesce(e.intent, 'projection_and_replay')
        OR s.metadata IS DISTINCT FROM e.metadata
            AND nullif(s.metadata - '{traceparent,tracestate}'::text[], '{}')
            IS DISTINCT FROM nullif(e.metadata - '{traceparent,tracestate}'::text[], '{}')
        OR nullif(s.tags, '{}') IS DISTINCT FROM nullif(e.tags, '{}')
        OR nullif(s.actor, '') IS DISTINCT FROM nullif(e.actor, '')
        OR nullif(s.aggregate_type, '') IS DISTINCT FROM nullif(e.aggregate_type, '')
        OR nullif(s.aggregate_id, '') IS DISTINCT FROM nullif(e.aggregate_id, '')
        OR s.occurred_at IS DISTINCT FROM coalesce(e.occurred_at, s.occurred_at))
    INTO known, different
    FROM ROWS FROM (jsonb_to_recordset(p_events) AS (id uuid, type text, version integer, intent text,
        aggregate_type text, aggregate_id text, actor text, tags text[], payload jsonb, metadata jsonb,
        occurred_at timestamptz)) WITH ORDINALITY AS e (id, type, version, intent, aggregate_type, aggregate_id,
            actor, tags, payload, metadata, occurred_at, ord)
    JOIN ROWS FROM (jsonb_to_recordset(p_scheduled) AS (id uuid, type text, version integer, intent text,
        aggregate_type text, aggregate_id text, actor text, tags text[], payload jsonb, metadata jsonb,
        occurred_at timestamptz)) WITH ORDINALITY AS s (id, type, version, intent, aggregate_type, aggregate_id,
            actor, tags, payload, metadata, occurred_at, ord) ON s.id = e.id OR e.id IS NULL AND s.ord = e.ord;
    IF known <> n OR n <> jsonb_array_length(p_scheduled) THEN
        RAISE EXCEPTION 'append to campaign %: % of its % events are scheduled already, in an append of % events',
            left(p_campaign_id, 64), known, n, jsonb_array_length(p_scheduled)
            USING ERRCODE = 'TM003', HINT = 'repeat a scheduled append with exactly the events it had at first';
    ELSIF different IS NOT NULL THEN
        RAISE EXCEPTION 'event % of campaign %: it was scheduled before with another content, id %', different - 1,
            left(p_campaign_id, 64), coalesce(p_events -> (different::integer - 1) ->> 'id', 'none')
            USING ERRCODE = 'TM002', HINT = 'give each new event an id of its own';
    END IF;
END
$$;
-- +goose StatementEnd

-- scheduled_with returns a scheduled append of the campaign, but for p_but, that has one of these ids.
-- Appends with one event are found by the index on given_id, the others also by that on other_ids.
-- +goose StatementBegin
CREATE FUNCTION tidemark.scheduled_with(p_campaign_id text, p_ids uuid[], p_but bigint,
    OUT id bigint, OUT due_at timestamptz, OUT events jsonb)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_indexscan = off SET enable_bitmapscan = on SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    WITH shares AS MATERIALIZED (
        SELECT s.id, s.campaign_id FROM tidemark.scheduled s
        WHERE s.other_ids IS NOT NULL AND s.other_ids && p_ids
    )
    SELECT h.id INTO id FROM shares h WHERE h.campaign_id = p_campaign_id AND h.id <> p_but ORDER BY h.id LIMIT 1;
    IF id IS NULL AND cardinality(p_ids) > 1 THEN -- the first is this append's own
        SELECT s.id INTO id FROM unnest(p_ids) AS u (given) CROSS JOIN LATERAL (
            SELECT s.id FROM tidemark.scheduled s WHERE s.campaign_id = p_campaign_id AND s.given_id = u.given OFFSET 0
        ) AS s WHERE s.id <> p_but ORDER BY s.id LIMIT 1;
    END IF;
    IF id IS NOT NULL THEN
        SELECT s.due_at, s.events INTO due_at, events FROM tidemark.scheduled s WHERE s.id = scheduled_with.id;
    END IF;
END
$$;
-- +goose StatementEnd

-- schedule is append_at that says more. A repeated call is known by the ids that it gives: it returns the number
-- and the due time that the first call's append has. id and due_at are NULL if the events are in the journal already.
-- It waits only for an open transaction that schedules the same first id: for 10 s, or for the session's
-- lock_timeout. The row comes first, then the look at the journal: an append that was made meanwhile is seen.
-- +goose StatementBegin
CREATE FUNCTION tidemark.schedule(p_campaign_id text, p_due timestamptz, p_events jsonb,
    p_scheduled_by text DEFAULT NULL, OUT id bigint, OUT due_at timestamptz, OUT duplicate boolean)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    ms CONSTANT bigint := date_part('epoch', clock_timestamp()) * 1000;
    random_tail CONSTANT text := right(gen_random_uuid()::text, 17);
    patience CONSTANT text := tidemark.bound_wait();
    ids uuid[];
    made bigint;
    reason text;
    stored jsonb;
BEGIN
    IF NOT coalesce(octet_length(p_campaign_id) BETWEEN 1 AND (tidemark.append_limits())[1]
        AND jsonb_typeof(p_events) = 'array', false)
        OR jsonb_array_length(p_events) > (tidemark.append_limits())[2] THEN
        PERFORM tidemark.refuse_call(p_campaign_id, p_events);
    ELSIF p_events = '[]' THEN
        reason := 'events are none: schedule at least one';
    ELSIF NOT coalesce(p_due >= '0001-01-01 00:00Z' AND p_due < '10000-01-01 00:00Z', false) THEN
        reason := format('due is %s, it must be in the years 1 to 9999',
            coalesce(to_jsonb(p_due AT TIME ZONE 'UTC') #>> '{}', 'NULL'));
    END IF;
    IF reason IS NOT NULL THEN
        RAISE EXCEPTION 'append to campaign %: %', left(p_campaign_id, 64), reason
            USING ERRCODE = 'TM004', DETAIL = jsonb_build_object('campaign', left(p_campaign_id, 256), 'index', -1,
                'field', split_part(reason, ' ', 1), 'reason', substr(reason, strpos(reason, ' ') + 1))::text;
    END IF;
    PERFORM tidemark.check_types(p_campaign_id, p_events);
    FOR attempt IN 1 .. 10 LOOP -- again if the append that this repeats was made or cancelled meanwhile
        INSERT INTO tidemark.scheduled AS s (campaign_id, due_at, attempt_at, scheduled_by, given_id, other_ids, events)
        SELECT p_campaign_id, p_due, p_due, nullif(p_scheduled_by, ''), e.ids[1], nullif(e.ids[2:], '{}'), e.events
        FROM (SELECT
            array_agg((e.event ->> 'id')::uuid ORDER BY e.ord) FILTER (WHERE e.event ->> 'id' IS NOT NULL) AS ids,
            jsonb_agg(
            CASE WHEN tidemark.event_within(e.event) OR tidemark.check_event(p_campaign_id, e.ord, e.event) THEN
                CASE WHEN e.event ->> 'id' IS NULL
                    THEN e.event || jsonb_build_object('id', tidemark.made_id(ms, e.ord, random_tail))
                    ELSE e.event END END ORDER BY e.ord) AS events
            FROM jsonb_array_elements(p_events) WITH ORDINALITY AS e (event, ord)) AS e
        ON CONFLICT (campaign_id, given_id) WHERE given_id IS NOT NULL DO NOTHING
        RETURNING s.id, s.due_at, array_prepend(s.given_id, s.other_ids), false INTO id, due_at, ids, duplicate;
        EXIT WHEN id IS NOT NULL;
        SELECT s.id, s.due_at, s.events, true INTO id, due_at, stored, duplicate
        FROM tidemark.scheduled s WHERE s.campaign_id = p_campaign_id AND s.given_id = (
            SELECT (e ->> 'id')::uuid FROM jsonb_array_elements(p_events) WITH ORDINALITY AS e (e, ord)
            WHERE e ->> 'id' IS NOT NULL ORDER BY ord LIMIT 1);
        EXIT WHEN FOUND;
    END LOOP;
    PERFORM set_config('lock_timeout', patience, true);
    IF id IS NULL THEN
        RAISE EXCEPTION 'append to campaign %: others schedule and cancel it all the time', left(p_campaign_id, 64)
            USING ERRCODE = '40001', HINT = 'retry the transaction';
    END IF;
    IF NOT duplicate AND ids[1] IS NOT NULL THEN
        made := id;
        IF tidemark.appended_before(p_campaign_id, p_events) THEN
            id := NULL; due_at := NULL; duplicate := true;
        ELSE -- perhaps the same events in another order
            SELECT coalesce(w.id, made), coalesce(w.due_at, p_due), w.events, w.id IS NOT NULL
            INTO id, due_at, stored, duplicate FROM tidemark.scheduled_with(p_campaign_id, ids, made) AS w;
        END IF;
    END IF;
    IF duplicate THEN
        DELETE FROM tidemark.scheduled s WHERE s.id = made;
        PERFORM tidemark.check_repeat(p_campaign_id, p_events, stored) WHERE stored IS NOT NULL;
        RETURN;
    END IF;
    IF pg_sequence_last_value('tidemark.next_look') > greatest(ms, date_part('epoch', p_due) * 1000)
        AND coalesce(current_setting('tidemark.notify', true), '') <> 'off' THEN
        PERFORM pg_notify('tidemark_scheduled', '');
    END IF;
END
$$;
-- +goose StatementEnd

-- append_at schedules an append: a worker makes it once it is due by the database's clock. It
-- checks the events as append does and gives each its id, so that a second append of them changes
-- nothing. The result is the number that cancel_scheduled needs, of the first call if this one repeats it.
-- NULL: the events are in the journal already.
-- +goose StatementBegin
CREATE FUNCTION tidemark.append_at(p_campaign_id text, p_due timestamptz, p_events jsonb,
    p_scheduled_by text DEFAULT NULL) RETURNS bigint
    LANGUAGE sql
BEGIN ATOMIC
    SELECT s.id FROM tidemark.schedule(p_campaign_id, p_due, p_events, p_scheduled_by) AS s;
END;
-- +goose StatementEnd

-- append_at with text serves calls with a literal or an untyped parameter, as append does.
-- +goose StatementBegin
CREATE FUNCTION tidemark.append_at(p_campaign_id text, p_due timestamptz, p_events text,
    p_scheduled_by text DEFAULT NULL) RETURNS bigint
    LANGUAGE sql
BEGIN ATOMIC
    SELECT tidemark.append_at(p_campaign_id, p_due, tidemark.parsed_json(p_events), p_scheduled_by);
END;
-- +goose StatementEnd

-- react does what a registered process has decided, in order. A timer is cancelled, and set again if
-- there are events; only timers of the process itself are. Events are marked with the seq at which
-- their campaign is expected, for append_scheduled, and their metadata name the process.
-- It waits for a worker that is firing a timer to be cancelled, which takes a moment.
-- +goose StatementBegin
CREATE FUNCTION tidemark.react(p_process text, p_timers text[], p_campaign_ids text[], p_dues timestamptz[],
    p_events text[], p_expects bigint[], p_refused text[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    doc jsonb;
    made bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM tidemark.readers r WHERE r.topic = p_process AND r.kind = 'projection'
        AND r.reacts_after IS NOT NULL) THEN
        RAISE EXCEPTION 'process % is not registered', quote_nullable(left(p_process, 64))
            USING ERRCODE = 'invalid_parameter_value',
                HINT = 'start the worker that has the process: it registers it, and reacts in its name';
    END IF;
    FOR i IN 1 .. coalesce(cardinality(p_campaign_ids), 0) LOOP
        IF p_timers[i] IS NOT NULL THEN
            DELETE FROM tidemark.scheduled s WHERE s.timer = p_timers[i] AND s.scheduled_by = p_process;
        END IF;
        CONTINUE WHEN p_events[i] IS NULL;
        doc := p_events[i]::jsonb;
        IF jsonb_typeof(doc) = 'array' THEN
            SELECT coalesce(jsonb_agg(CASE WHEN jsonb_typeof(coalesce(nullif(e.event -> 'metadata', 'null'), '{}')) = 'object'
                AND jsonb_typeof(e.event) = 'object' THEN e.event || jsonb_build_object('metadata',
                    coalesce(nullif(e.event -> 'metadata', 'null'), '{}') || jsonb_build_object('causation_process', p_process))
                ELSE e.event END ORDER BY e.ord), '[]')
            INTO doc FROM jsonb_array_elements(doc) WITH ORDINALITY AS e (event, ord);
        END IF;
        made := tidemark.append_at(p_campaign_ids[i], p_dues[i], doc, p_process);
        IF p_timers[i] IS NOT NULL OR p_expects[i] IS NOT NULL THEN
            UPDATE tidemark.scheduled s SET timer = p_timers[i], events = CASE WHEN p_expects[i] IS NULL THEN s.events
                ELSE (SELECT jsonb_agg(CASE e.ord WHEN 1 THEN e.event || jsonb_strip_nulls(jsonb_build_object(
                    'tidemark_expect', p_expects[i], 'tidemark_refused', p_refused[i]))
                    ELSE e.event || '{"tidemark_with": true}' END ORDER BY e.ord)
                    FROM jsonb_array_elements(s.events) WITH ORDINALITY AS e (event, ord)) END
            WHERE s.id = made;
        END IF;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- cancel_scheduled deletes a scheduled append. It returns false if the append has been made or
-- cancelled, or its events were appended otherwise. If a worker is making it, or another transaction cancels or moves
-- it, it waits for the outcome: for 10 s, or for the session's lock_timeout.
-- +goose StatementBegin
CREATE FUNCTION tidemark.cancel_scheduled(p_id bigint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    patience CONSTANT text := tidemark.bound_wait();
    campaign text;
    given uuid;
BEGIN
    DELETE FROM tidemark.scheduled s WHERE s.id = p_id RETURNING s.campaign_id, s.given_id INTO campaign, given;
    PERFORM set_config('lock_timeout', patience, true);
    RETURN campaign IS NOT NULL AND NOT EXISTS (SELECT FROM tidemark.find_event(campaign, given));
END
$$;
-- +goose StatementEnd

-- cancel_for_operator is cancel_scheduled as an act: the log of operators says who did it.
-- +goose StatementBegin
CREATE FUNCTION tidemark.cancel_for_operator(p_id bigint, p_actor text, p_reason text, p_way text, p_token_id bigint,
    p_address text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    patience CONSTANT text := tidemark.bound_wait();
    gone tidemark.scheduled;
BEGIN
    IF coalesce(p_actor, '') = '' THEN
        RAISE EXCEPTION 'the actor is missing'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'say who does it: it is written to the log';
    END IF;
    DELETE FROM tidemark.scheduled s WHERE s.id = p_id RETURNING s.* INTO gone;
    PERFORM set_config('lock_timeout', patience, true);
    IF gone.id IS NULL OR EXISTS (SELECT FROM tidemark.find_event(gone.campaign_id, gone.given_id)) THEN
        RETURN false;
    END IF;
    PERFORM tidemark.log_act(p_actor, 'scheduled_cancelled', p_reason, '', '', gone.campaign_id, 0, jsonb_build_object(
        'request', jsonb_build_object('id', p_id), 'result', jsonb_build_object('campaign_id', gone.campaign_id,
            'due_at', to_char(gone.due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
            'event_type', gone.events -> 0 -> 'type', 'scheduled_by', gone.scheduled_by)),
        p_way, p_token_id, p_address);
    RETURN true;
END
$$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION tidemark.cancel_for_operator FROM PUBLIC;

-- reschedule moves a scheduled append to another time, and returns that and the time it had. A refused append
-- begins anew. moved is false if the append has been made or cancelled, or its events were appended otherwise.
-- It waits as cancel_scheduled does. A sleeping worker is woken if the append is due before its next look.
-- +goose StatementBegin
CREATE FUNCTION tidemark.reschedule(p_id bigint, p_due timestamptz, OUT moved boolean, OUT due_at timestamptz,
    OUT was_due_at timestamptz)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    patience CONSTANT text := tidemark.bound_wait();
    campaign text;
    given uuid;
BEGIN
    IF NOT coalesce(p_due >= '0001-01-01 00:00Z' AND p_due < '10000-01-01 00:00Z', false) THEN
        RAISE EXCEPTION 'scheduled append %: due is %, it must be in the years 1 to 9999', p_id,
            coalesce(to_jsonb(p_due AT TIME ZONE 'UTC') #>> '{}', 'NULL')
            USING ERRCODE = 'TM004', HINT = 'give a time in these years', DETAIL = jsonb_build_object('campaign', '',
                'index', -1, 'field', 'due', 'reason', format('is %s, it must be in the years 1 to 9999',
                    coalesce(to_jsonb(p_due AT TIME ZONE 'UTC') #>> '{}', 'NULL')))::text;
    END IF;
    SELECT s.campaign_id, s.given_id, s.due_at INTO campaign, given, was_due_at
    FROM tidemark.scheduled s WHERE s.id = p_id FOR UPDATE;
    PERFORM set_config('lock_timeout', patience, true);
    moved := campaign IS NOT NULL AND NOT EXISTS (SELECT FROM tidemark.find_event(campaign, given));
    IF NOT moved THEN
        was_due_at := NULL;
        RETURN;
    END IF;
    UPDATE tidemark.scheduled s SET due_at = p_due, attempt_at = p_due, attempts = 0, error = NULL WHERE s.id = p_id;
    due_at := p_due;
    IF pg_sequence_last_value('tidemark.next_look')
            > greatest(date_part('epoch', clock_timestamp()), date_part('epoch', p_due)) * 1000
        AND coalesce(current_setting('tidemark.notify', true), '') <> 'off' THEN
        PERFORM pg_notify('tidemark_scheduled', '');
    END IF;
END
$$;
-- +goose StatementEnd

-- reschedule_for_operator is reschedule as an act: the log of operators says who did it.
-- +goose StatementBegin
CREATE FUNCTION tidemark.reschedule_for_operator(p_id bigint, p_due timestamptz, p_actor text, p_reason text,
    p_way text, p_token_id bigint, p_address text, OUT moved boolean, OUT due_at timestamptz, OUT was_due_at timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    row tidemark.scheduled;
BEGIN
    IF coalesce(p_actor, '') = '' THEN
        RAISE EXCEPTION 'the actor is missing'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'say who does it: it is written to the log';
    END IF;
    SELECT r.moved, r.due_at, r.was_due_at INTO moved, due_at, was_due_at FROM tidemark.reschedule(p_id, p_due) AS r;
    IF moved THEN
        SELECT s.* INTO row FROM tidemark.scheduled s WHERE s.id = p_id;
        PERFORM tidemark.log_act(p_actor, 'rescheduled', p_reason, '', '', row.campaign_id, 0, jsonb_build_object(
            'request', jsonb_build_object('id', p_id,
                'due', to_char(p_due AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
            'result', jsonb_build_object('campaign_id', row.campaign_id,
                'due_at', to_char(due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                'was_due_at', to_char(was_due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                'event_type', row.events -> 0 -> 'type', 'scheduled_by', row.scheduled_by)),
            p_way, p_token_id, p_address);
    END IF;
END
$$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION tidemark.reschedule_for_operator FROM PUBLIC;

-- append_expecting makes an append of a process that expects its campaign at a seq. If the campaign
-- stands elsewhere, it appends an event of the type p_refused instead, or raises TM001 without one.
-- +goose StatementBegin
CREATE FUNCTION tidemark.append_expecting(p_campaign_id text, p_events jsonb, p_expect bigint, p_refused text)
    RETURNS TABLE (seq bigint, duplicate boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    where_it_stands text;
BEGIN
    RETURN QUERY SELECT a.seq, a.duplicate FROM tidemark.append_rows(p_campaign_id, p_events, p_expect) AS a;
EXCEPTION WHEN SQLSTATE 'TM001' THEN
    IF p_refused IS NULL THEN
        RAISE;
    END IF;
    GET STACKED DIAGNOSTICS where_it_stands = PG_EXCEPTION_DETAIL;
    RETURN QUERY SELECT a.seq, a.duplicate FROM tidemark.append_rows(p_campaign_id, jsonb_build_array(
        jsonb_strip_nulls(jsonb_build_object('type', p_refused, 'metadata', p_events -> 0 -> 'metadata',
            'id', md5((p_events -> 0 ->> 'id') || ' refused')::uuid,
            'payload', jsonb_build_object('type', p_events -> 0 -> 'type', 'expected', p_expect,
                'actual', where_it_stands::jsonb -> 'actual')))), NULL) AS a;
END
$$;
-- +goose StatementEnd

-- append_scheduled makes one append, or those of one campaign together. The caller holds the locks.
-- Groups whose applications apply inline get a work item too: no application is there to apply.
-- +goose StatementBegin
CREATE FUNCTION tidemark.append_scheduled(p_campaign_id text, p_events jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    n integer;
    last bigint;
BEGIN
    IF jsonb_path_exists(p_events, '$[*].tidemark_expect') THEN
        SELECT count(*), max(a.seq) INTO n, last
        FROM (
            SELECT jsonb_agg(e.event - '{tidemark_expect,tidemark_refused,tidemark_with}'::text[] ORDER BY e.ord) AS events,
                min((e.event ->> 'tidemark_expect')::bigint) AS expect, min(e.event ->> 'tidemark_refused') AS refused
            FROM (
                SELECT x.event, x.ord,
                    count(*) FILTER (WHERE NOT x.event ? 'tidemark_with') OVER (ORDER BY x.ord) AS append
                FROM jsonb_array_elements(p_events) WITH ORDINALITY AS x (event, ord)
            ) AS e GROUP BY e.append ORDER BY e.append OFFSET 0
        ) AS r CROSS JOIN LATERAL tidemark.append_expecting(p_campaign_id, r.events, r.expect, r.refused) AS a
        WHERE NOT a.duplicate;
    ELSE
        SELECT count(*), max(a.seq) INTO n, last FROM tidemark.append_rows(p_campaign_id, p_events, NULL) AS a
            WHERE NOT a.duplicate;
    END IF;
    INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
    SELECT g.name, p_campaign_id, last, clock_timestamp(), n FROM tidemark.consumer_groups g
    WHERE n > 0 AND g.name > '' AND g.state = 'inline';
END
$$;
-- +goose StatementEnd

-- scheduled_keys returns the keys that appends of these events lock before the campaign, as
-- lock_keys does: types and tags shared, or with p_many buckets of tags exclusively.
-- +goose StatementBegin
CREATE FUNCTION tidemark.scheduled_keys(p_events jsonb, p_many boolean) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT tidemark.touched_types(p_events) || CASE WHEN p_many THEN
        array(SELECT DISTINCT tidemark.lock_key(32008, k.key & 63)
            FROM unnest(tidemark.touched_tags(p_events)) AS k (key))
        ELSE tidemark.touched_tags(p_events) END
$$;
-- +goose StatementEnd

-- fire_scheduled makes up to p_limit due appends in one transaction, in the order of (attempt_at,
-- id) after the given place, without the campaigns in p_skip. The campaign's own lock is the lease: its holder reads the campaign's
-- first due appends, makes them and deletes them, so their order holds among any number of workers,
-- and a dead worker holds nothing. All locks are tried and never waited for, so an open transaction
-- delays its own campaign alone. Such campaigns are returned in busy. With p_campaign_id the call is
-- for this campaign alone and waits 300 ms for its locks, like any append: a campaign whose lock
-- always has a queue would never be free.
--
-- With p_wait the caller is about to sleep for so long at most, and for a day. If it listens, the call first says
-- so in tidemark.next_look, and then looks. wait is the time to sleep. held counts due appends that
-- a caller is cancelling.
-- +goose StatementBegin
CREATE FUNCTION tidemark.fire_scheduled(p_limit integer, p_campaign_id text, p_after timestamptz, p_after_id bigint,
    p_skip text[], p_wait interval, p_listens boolean, OUT fired bigint, OUT refused bigint, OUT held bigint, OUT busy text[], OUT more boolean,
    OUT after timestamptz, OUT after_id bigint, OUT wait interval)
    LANGUAGE plpgsql
    SET lock_timeout = '300ms'
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
        SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    most CONSTANT integer := least(p_limit, (tidemark.append_limits())[8]);
    longest CONSTANT interval := '10 min'; -- between two attempts
    at timestamptz := clock_timestamp();
    until bigint;
    campaigns text[];
    counts bigint[];
    ids bigint[];
    owners text[];
    docs jsonb[];
    keys bigint[];
    many boolean;
    batch record;
BEGIN
    IF p_limit < 1 THEN
        RAISE EXCEPTION 'fire_scheduled with a limit of %', p_limit
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use a limit from 1';
    END IF;
    p_wait := least(greatest(p_wait, '0'), '1 day');
    fired := 0; refused := 0; held := 0; busy := '{}'; more := false;
    IF p_campaign_id IS NOT NULL THEN
        campaigns := ARRAY[p_campaign_id]; counts := ARRAY[most];
        docs := array(SELECT s.events FROM tidemark.scheduled s WHERE s.campaign_id = p_campaign_id
            AND s.attempt_at <= at ORDER BY s.campaign_id, s.attempt_at, s.id LIMIT most);
        BEGIN
            PERFORM tidemark.lock_keys(tidemark.touched_types(k.events), tidemark.touched_tags(k.events), '{}', campaigns)
            FROM (SELECT jsonb_path_query_array(to_jsonb(docs), '$[*][*]') AS events) AS k;
        EXCEPTION WHEN lock_not_available THEN
            busy := campaigns;
            RETURN;
        END;
    ELSE
        IF p_wait IS NOT NULL AND p_listens AND tidemark.may_notify() THEN
            SELECT date_part('epoch', least(at + p_wait, (SELECT s.attempt_at FROM tidemark.scheduled s
                WHERE s.attempt_at > at ORDER BY s.attempt_at, s.id LIMIT 1))) * 1000 INTO until;
            PERFORM setval('tidemark.next_look', until) FROM tidemark.next_look n
            WHERE n.last_value NOT BETWEEN date_part('epoch', at) * 1000 AND until;
        ELSE
            PERFORM setval('tidemark.next_look', 0) FROM tidemark.next_look n WHERE n.last_value > 0;
        END IF;
        at := clock_timestamp();
        WITH due AS MATERIALIZED (
            SELECT d.*, sum(d.bytes) OVER (ORDER BY d.attempt_at, d.id) - d.bytes AS before FROM (
                SELECT s.campaign_id, s.attempt_at, s.id, pg_column_size(s.events) AS bytes FROM tidemark.scheduled s
                WHERE s.attempt_at <= at AND (s.attempt_at, s.id) > (p_after, p_after_id)
                    AND s.campaign_id <> ALL (p_skip)
                ORDER BY s.attempt_at, s.id LIMIT most
            ) AS d
        ), chosen AS MATERIALIZED (
            SELECT * FROM due d WHERE d.before < 8388608
        )
        SELECT array_agg(c.campaign_id), array_agg(c.n), l.attempt_at, l.id,
            sum(c.n) = most OR sum(c.n) < (SELECT count(*) FROM due)
        INTO campaigns, counts, after, after_id, more
        FROM (SELECT o.campaign_id, count(*) AS n FROM chosen o GROUP BY o.campaign_id) AS c
        CROSS JOIN (SELECT o.attempt_at, o.id FROM chosen o ORDER BY o.attempt_at DESC, o.id DESC LIMIT 1) AS l
        GROUP BY l.attempt_at, l.id;
        IF campaigns IS NULL THEN
            more := false;
            after := at;
            after_id := 0;
        END IF;
        SELECT coalesce(array_agg(c.id) FILTER (WHERE c.free), '{}'), array_agg(c.n) FILTER (WHERE c.free),
            coalesce(array_agg(c.id) FILTER (WHERE NOT c.free), '{}')
        INTO campaigns, counts, busy
        FROM (SELECT u.id, u.n, pg_try_advisory_xact_lock(tidemark.lock_key(32002, hashtextextended(u.id, 0))) AS free
            FROM unnest(campaigns, counts) AS u (id, n)) AS c;
    END IF;

    -- Only now, under the campaigns' locks, the appends themselves. One that a caller is cancelling or moving
    -- holds back those behind it.
    WITH head AS MATERIALIZED (
        SELECT h.place, row_number() OVER (PARTITION BY h.campaign_id ORDER BY h.attempt_at, h.id) AS n
        FROM unnest(campaigns, counts) AS c (id, n) CROSS JOIN LATERAL (
            SELECT s.ctid AS place, s.campaign_id, s.attempt_at, s.id FROM tidemark.scheduled s
            WHERE s.campaign_id = c.id AND s.attempt_at <= at ORDER BY s.campaign_id, s.attempt_at, s.id LIMIT c.n
        ) AS h
    ), mine AS MATERIALIZED (
        SELECT s.campaign_id, s.id, s.attempt_at, s.events, h.n
        FROM head h JOIN tidemark.scheduled s ON s.ctid = h.place AND s.attempt_at <= at -- it may just have been moved
        FOR UPDATE OF s SKIP LOCKED
    ), first AS MATERIALIZED (
        SELECT m.*, row_number() OVER (PARTITION BY m.campaign_id ORDER BY m.n) = m.n AS whole FROM mine m
    )
    SELECT array_agg(f.id ORDER BY f.attempt_at, f.id), array_agg(f.campaign_id ORDER BY f.attempt_at, f.id),
        array_agg(f.events ORDER BY f.attempt_at, f.id), (SELECT count(*) FROM head) - count(*)
    INTO ids, owners, docs, held FROM first f WHERE f.whole;

    IF ids IS NOT NULL THEN
        many := cardinality(tidemark.touched_tags(jsonb_path_query_array(to_jsonb(docs), '$[*][*]'))) > 64;
        keys := array(
            SELECT k.key FROM unnest(tidemark.scheduled_keys(jsonb_path_query_array(to_jsonb(docs), '$[*][*]'), many))
                AS k (key)
            WHERE NOT CASE WHEN k.key >> 48 = 32008 THEN pg_try_advisory_xact_lock(k.key)
                ELSE pg_try_advisory_xact_lock_shared(k.key) END);
        IF keys <> '{}' THEN
            WITH due AS MATERIALIZED (
                SELECT u.*, bool_or(tidemark.scheduled_keys(u.doc, many) && keys) OVER (PARTITION BY u.owner) AS stuck
                FROM unnest(ids, owners, docs) WITH ORDINALITY AS u (id, owner, doc, ord)
            )
            SELECT array_agg(d.id ORDER BY d.ord) FILTER (WHERE NOT d.stuck),
                array_agg(d.owner ORDER BY d.ord) FILTER (WHERE NOT d.stuck),
                array_agg(d.doc ORDER BY d.ord) FILTER (WHERE NOT d.stuck),
                busy || coalesce(array_agg(DISTINCT d.owner) FILTER (WHERE d.stuck), '{}')
            INTO ids, owners, docs, busy FROM due d;
        END IF;
    END IF;

    BEGIN
        DELETE FROM tidemark.scheduled s WHERE s.id = ANY (ids);
        FOR batch IN
            SELECT u.owner, CASE count(*) WHEN 1 THEN (array_agg(u.doc))[1]
                ELSE jsonb_path_query_array(jsonb_agg(u.doc ORDER BY u.ord), '$[*][*]') END AS events
            FROM unnest(owners, docs) WITH ORDINALITY AS u (owner, doc, ord) GROUP BY u.owner ORDER BY min(u.ord)
        LOOP
            PERFORM tidemark.append_scheduled(batch.owner, batch.events);
        END LOOP;
        fired := coalesce(cardinality(ids), 0);
    EXCEPTION WHEN OTHERS THEN -- one is refused: each by itself
        IF left(SQLSTATE, 2) IN ('25', '40', '53', '55', '57', '58') THEN
            RAISE;
        END IF;
        FOR n IN 1 .. cardinality(ids) LOOP
            BEGIN
                DELETE FROM tidemark.scheduled s WHERE s.id = ids[n];
                PERFORM tidemark.append_scheduled(owners[n], docs[n]);
                fired := fired + 1;
            EXCEPTION WHEN OTHERS THEN
                IF left(SQLSTATE, 2) IN ('25', '40', '53', '55', '57', '58') THEN
                    RAISE;
                ELSIF SQLSTATE = 'TM014' THEN
                    BEGIN
                        PERFORM tidemark.ask_restore(owners[n]); -- migrations/00016_archives.sql
                    EXCEPTION
                        WHEN SQLSTATE 'TM015' THEN
                            NULL; -- an operator must bring it back, as its own error says
                        WHEN lock_not_available THEN
                            NULL; -- an open transaction asks for it
                    END;
                END IF;
                UPDATE tidemark.scheduled s SET attempts = s.attempts + 1,
                    attempt_at = clock_timestamp() + least(longest, interval '1 s' * 2 ^ least(s.attempts, 16)),
                    error = CASE WHEN SQLSTATE LIKE 'TM%' THEN left(SQLERRM, 1000)
                        ELSE format('refused with SQLSTATE %s: append the events by hand to see why', SQLSTATE) END
                WHERE s.id = ids[n];
                refused := refused + 1;
            END;
        END LOOP;
    END;

    IF p_campaign_id IS NULL AND p_wait IS NOT NULL THEN
        -- A next attempt that lies too far ahead dates from before the clock went back.
        UPDATE tidemark.scheduled s SET attempt_at = clock_timestamp()
        WHERE s.ctid = ANY (array(SELECT r.ctid FROM tidemark.scheduled r
            WHERE r.attempts > 0 AND r.attempt_at > clock_timestamp() + longest AND r.attempt_at > r.due_at
            ORDER BY r.attempt_at LIMIT most FOR UPDATE SKIP LOCKED));
        at := clock_timestamp();
        wait := least(p_wait, (SELECT s.attempt_at FROM tidemark.scheduled s WHERE s.attempt_at > at
            ORDER BY s.attempt_at, s.id LIMIT 1) - at);
        IF fired + refused = 0 THEN
            PERFORM set_config('synchronous_commit', 'off', true); -- nothing but the sequence has changed
        END IF;
    END IF;
END
$$;
-- +goose StatementEnd

-- scheduled_report counts appends that are to be made, and of these the due and the refused ones, up
-- to p_exact each; beyond that, pending is estimated. overdue_for is the age of the one that has been
-- due for longest.
-- +goose StatementBegin
CREATE FUNCTION tidemark.scheduled_report(p_exact integer, p_pages integer, OUT pending bigint,
    OUT estimated boolean, OUT overdue bigint, OUT overdue_for interval, OUT refused bigint)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
BEGIN
    SELECT count(*) INTO pending FROM (SELECT FROM tidemark.scheduled s ORDER BY s.attempt_at, s.id
        LIMIT p_exact + 1) AS s;
    SELECT count(*) INTO overdue FROM (SELECT FROM tidemark.scheduled s WHERE s.attempt_at <= at
        ORDER BY s.attempt_at, s.id LIMIT p_exact) AS s;
    SELECT count(*) INTO refused FROM (SELECT FROM tidemark.scheduled s WHERE s.attempts > 0 LIMIT p_exact) AS s;
    estimated := pending > p_exact;
    IF estimated THEN
        SELECT greatest(pending, sum(p.weight * c.n)) INTO pending
        FROM tidemark.sample_pages('tidemark.scheduled', p_pages) AS p CROSS JOIN LATERAL (
            SELECT count(*) AS n FROM tidemark.scheduled s WHERE s.ctid >= p.first AND s.ctid <= p.last
        ) AS c;
    END IF;
    overdue_for := greatest(at - (SELECT s.attempt_at FROM tidemark.scheduled s ORDER BY s.attempt_at, s.id LIMIT 1),
        '0');
END
$$;
-- +goose StatementEnd

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP FUNCTION tidemark.scheduled_report;
DROP FUNCTION tidemark.fire_scheduled;
DROP FUNCTION tidemark.scheduled_keys;
DROP FUNCTION tidemark.append_scheduled;
DROP FUNCTION tidemark.append_expecting;
DROP FUNCTION tidemark.reschedule_for_operator;
DROP FUNCTION tidemark.reschedule;
DROP FUNCTION tidemark.cancel_for_operator;
DROP FUNCTION tidemark.cancel_scheduled;
DROP FUNCTION tidemark.react;
DROP FUNCTION tidemark.append_at(text, timestamptz, text, text);
DROP FUNCTION tidemark.append_at(text, timestamptz, jsonb, text);
DROP FUNCTION tidemark.schedule;
DROP FUNCTION tidemark.scheduled_with;
DROP FUNCTION tidemark.check_repeat;
DROP SEQUENCE tidemark.next_look;
DROP TABLE tidemark.scheduled;
