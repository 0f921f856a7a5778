-- Appends that are to be made later (docs/adr/0012): schedule, move, cancel.

-- check_repeat raises TM002 or TM003 unless p_events are the events of a scheduled append. An event without
-- an id repeats the one at its place. A repeat has a trace of its own, which may differ.
CREATE OR REPLACE FUNCTION tidemark.check_repeat(p_campaign_id text, p_events jsonb, p_scheduled jsonb) RETURNS void
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

-- scheduled_with returns a scheduled append of the campaign, but for p_but, that has one of these ids.
-- Appends with one event are found by the index on given_id, the others also by that on other_ids.
CREATE OR REPLACE FUNCTION tidemark.scheduled_with(p_campaign_id text, p_ids uuid[], p_but bigint,
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

-- schedule is append_at that says more. A repeated call is known by the ids that it gives: it returns the number
-- and the due time that the first call's append has. id and due_at are NULL if the events are in the journal already.
-- It waits only for an open transaction that schedules the same first id: for 10 s, or for the session's
-- lock_timeout. The row comes first, then the look at the journal: an append that was made meanwhile is seen.
CREATE OR REPLACE FUNCTION tidemark.schedule(p_campaign_id text, p_due timestamptz, p_events jsonb,
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

-- append_at schedules an append: a worker makes it once it is due by the database's clock. It
-- checks the events as append does and gives each its id, so that a second append of them changes
-- nothing. The result is the number that cancel_scheduled needs, of the first call if this one repeats it.
-- NULL: the events are in the journal already.
CREATE OR REPLACE FUNCTION tidemark.append_at(p_campaign_id text, p_due timestamptz, p_events jsonb,
    p_scheduled_by text DEFAULT NULL) RETURNS bigint
    LANGUAGE sql
BEGIN ATOMIC
    SELECT s.id FROM tidemark.schedule(p_campaign_id, p_due, p_events, p_scheduled_by) AS s;
END;

-- append_at with text serves calls with a literal or an untyped parameter, as append does.
CREATE OR REPLACE FUNCTION tidemark.append_at(p_campaign_id text, p_due timestamptz, p_events text,
    p_scheduled_by text DEFAULT NULL) RETURNS bigint
    LANGUAGE sql
BEGIN ATOMIC
    SELECT tidemark.append_at(p_campaign_id, p_due, tidemark.parsed_json(p_events), p_scheduled_by);
END;

-- cancel_scheduled deletes a scheduled append. It returns false if the append has been made or
-- cancelled, or its events were appended otherwise. If a worker is making it, or another transaction cancels or moves
-- it, it waits for the outcome: for 10 s, or for the session's lock_timeout.
CREATE OR REPLACE FUNCTION tidemark.cancel_scheduled(p_id bigint) RETURNS boolean
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

-- cancel_for_operator is cancel_scheduled as an act: the log of operators says who did it.
CREATE OR REPLACE FUNCTION tidemark.cancel_for_operator(p_id bigint, p_actor text, p_reason text, p_way text,
    p_token_id bigint, p_address text) RETURNS boolean
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
REVOKE EXECUTE ON FUNCTION tidemark.cancel_for_operator FROM PUBLIC;

-- reschedule moves a scheduled append to another time, and returns that and the time it had. A refused append
-- begins anew. moved is false if the append has been made or cancelled, or its events were appended otherwise.
-- It waits as cancel_scheduled does. A sleeping worker is woken if the append is due before its next look.
CREATE OR REPLACE FUNCTION tidemark.reschedule(p_id bigint, p_due timestamptz, OUT moved boolean,
    OUT due_at timestamptz, OUT was_due_at timestamptz)
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

-- reschedule_for_operator is reschedule as an act: the log of operators says who did it.
CREATE OR REPLACE FUNCTION tidemark.reschedule_for_operator(p_id bigint, p_due timestamptz, p_actor text, p_reason text,
    p_way text, p_token_id bigint, p_address text, OUT moved boolean, OUT due_at timestamptz,
    OUT was_due_at timestamptz)
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
REVOKE EXECUTE ON FUNCTION tidemark.reschedule_for_operator FROM PUBLIC;
