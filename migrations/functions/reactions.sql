-- What processes decide: appends, at once or later, and timers.

-- decided_events returns the events of a decision, which name the process in their metadata and carry what
-- append_scheduled needs to know. What is no array of objects is left as it is: append_at refuses it.
CREATE OR REPLACE FUNCTION tidemark.decided_events(p_events jsonb, p_process text) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF jsonb_typeof(p_events) IS DISTINCT FROM 'array' THEN
        RETURN p_events;
    END IF;
    RETURN (
        SELECT coalesce(jsonb_agg(CASE WHEN jsonb_typeof(e.metadata) = 'object' AND jsonb_typeof(e.event) = 'object'
            THEN e.event || jsonb_build_object('metadata',
                e.metadata || jsonb_build_object('causation_process', p_process))
            ELSE e.event END ORDER BY e.ord), '[]')
        FROM (SELECT x.event, x.ord, coalesce(nullif(x.event -> 'metadata', 'null'), '{}') AS metadata
            FROM jsonb_array_elements(p_events) WITH ORDINALITY AS x (event, ord)) AS e);
END
$$;

-- expecting_events returns events of a scheduled append that expects its campaign at a seq: see append_scheduled.
CREATE OR REPLACE FUNCTION tidemark.expecting_events(p_events jsonb, p_expect bigint, p_refused text) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_agg(CASE e.ord WHEN 1 THEN e.event || jsonb_strip_nulls(jsonb_build_object(
        'tidemark_expect', p_expect, 'tidemark_refused', p_refused))
        ELSE e.event || '{"tidemark_with": true}' END ORDER BY e.ord)
    FROM jsonb_array_elements(p_events) WITH ORDINALITY AS e (event, ord)
$$;

-- scheduled_sharing returns scheduled appends of several events that have one of these ids behind their first.
CREATE OR REPLACE FUNCTION tidemark.scheduled_sharing(p_ids uuid[])
    RETURNS TABLE (id bigint, campaign_id text, other_ids uuid[])
    LANGUAGE sql STABLE
    SET enable_seqscan = off SET enable_indexscan = off SET enable_bitmapscan = on SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.id, s.campaign_id, s.other_ids FROM tidemark.scheduled s
    WHERE s.other_ids IS NOT NULL AND s.other_ids && p_ids
$$;

-- schedule_new schedules appends in one statement, for a quarter of the cost of append_at for each. A NULL in
-- p_events is none. It returns the numbers of those that it has left to append_at: one of their events is known
-- already. NULL says that it has done nothing, because one has something that append_at refuses, or no id.
CREATE OR REPLACE FUNCTION tidemark.schedule_new(p_campaign_ids text[], p_dues timestamptz[], p_events jsonb[],
    p_scheduled_by text, p_timers text[], p_expects bigint[], p_refused text[]) RETURNS bigint[]
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    limits CONSTANT integer[] := tidemark.append_limits();
    patience CONSTANT text := tidemark.bound_wait();
    ids bigint[];
    known bigint[];
BEGIN
    IF EXISTS (SELECT FROM unnest(p_campaign_ids, p_dues, p_events) AS a (campaign, due, events)
        WHERE CASE WHEN jsonb_typeof(a.events) = 'array' THEN
            coalesce(octet_length(a.campaign) NOT BETWEEN 1 AND limits[1]
                OR jsonb_array_length(a.events) NOT BETWEEN 1 AND limits[2]
                OR a.due < '0001-01-01 00:00Z' OR a.due >= '10000-01-01 00:00Z', true)
            ELSE a.events IS NOT NULL END)
        OR EXISTS (SELECT FROM unnest(p_events) AS a (events)
            CROSS JOIN LATERAL jsonb_array_elements(a.events) AS e (event)
            WHERE tidemark.types_fit(e.event) IS NOT true OR e.event ->> 'id' IS NULL)
        OR EXISTS (SELECT FROM unnest(p_campaign_ids, p_events) AS a (campaign, events) WHERE a.events IS NOT NULL
            GROUP BY a.campaign, (a.events #>> '{0,id}')::uuid HAVING count(*) > 1) THEN
        RETURN NULL;
    END IF;
    WITH given AS MATERIALIZED (
        SELECT a.campaign, a.due, a.timer, a.expect, a.refused, a.ord,
            array_agg((e.event ->> 'id')::uuid ORDER BY e.ord) AS ids,
            jsonb_agg(CASE WHEN tidemark.event_within(e.event) OR tidemark.check_event(a.campaign, e.ord, e.event)
                THEN e.event END ORDER BY e.ord) AS events
        FROM unnest(p_campaign_ids, p_dues, p_timers, p_expects, p_refused, p_events) WITH ORDINALITY
            AS a (campaign, due, timer, expect, refused, events, ord)
        CROSS JOIN LATERAL jsonb_array_elements(a.events) WITH ORDINALITY AS e (event, ord)
        GROUP BY a.campaign, a.due, a.timer, a.expect, a.refused, a.ord
    ), made AS (
        INSERT INTO tidemark.scheduled AS s (campaign_id, due_at, attempt_at, scheduled_by, timer, given_id, other_ids,
            events)
        SELECT g.campaign, g.due, g.due, p_scheduled_by, g.timer, g.ids[1], nullif(g.ids[2:], '{}'),
            CASE WHEN g.expect IS NULL THEN g.events
                ELSE tidemark.expecting_events(g.events, g.expect, g.refused) END
        FROM given g ORDER BY g.ord
        ON CONFLICT (campaign_id, given_id) WHERE given_id IS NOT NULL DO NOTHING
        RETURNING s.id, s.campaign_id, s.given_id
    )
    SELECT array_agg(m.id ORDER BY a.ord) INTO ids
    FROM unnest(p_campaign_ids) WITH ORDINALITY AS a (campaign, ord) LEFT JOIN given g ON g.ord = a.ord
    LEFT JOIN made m ON m.campaign_id = g.campaign AND m.given_id = g.ids[1];
    PERFORM set_config('lock_timeout', patience, true);
    -- The rows come first, then the look at the journal: an append that was made meanwhile is seen.
    WITH each AS MATERIALIZED (
        SELECT a.ord, a.campaign, ids[a.ord] AS row_id, (e.event ->> 'id')::uuid AS id
        FROM unnest(p_campaign_ids, p_events) WITH ORDINALITY AS a (campaign, events, ord)
        CROSS JOIN LATERAL jsonb_array_elements(a.events) AS e (event)
    ), sharing AS MATERIALIZED (
        SELECT * FROM tidemark.scheduled_sharing(array(SELECT e.id FROM each e))
    )
    SELECT array_agg(DISTINCT e.ord) INTO known FROM each e
    WHERE e.row_id IS NULL OR EXISTS (SELECT FROM tidemark.find_event(e.campaign, e.id))
        OR EXISTS (SELECT FROM tidemark.scheduled s
            WHERE s.campaign_id = e.campaign AND s.given_id = e.id AND s.id <> e.row_id)
        OR EXISTS (SELECT FROM sharing s
            WHERE s.campaign_id = e.campaign AND e.id = ANY (s.other_ids) AND s.id <> e.row_id);
    DELETE FROM tidemark.scheduled s WHERE s.id IN (SELECT ids[k.ord] FROM unnest(known) AS k (ord));
    IF pg_sequence_last_value('tidemark.next_look') > greatest(date_part('epoch', clock_timestamp()) * 1000,
        date_part('epoch', (SELECT min(d.due) FROM unnest(p_dues) AS d (due))) * 1000)
        AND coalesce(current_setting('tidemark.notify', true), '') <> 'off' THEN
        PERFORM pg_notify('tidemark_scheduled', '');
    END IF;
    RETURN coalesce(known, '{}');
END
$$;

-- react does what a registered process has decided, in order. A timer is cancelled, and set again if
-- there are events; only timers of the process itself are. Events are marked with the seq at which
-- their campaign is expected, for append_scheduled, and their metadata name the process.
-- It waits for a worker that is firing a timer to be cancelled, which takes a moment.
CREATE OR REPLACE FUNCTION tidemark.react(p_process text, p_timers text[], p_campaign_ids text[], p_dues timestamptz[],
    p_events text[], p_expects bigint[], p_refused text[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    docs jsonb[];
    known bigint[];
    made bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM tidemark.readers r WHERE r.topic = p_process AND r.kind = 'projection'
        AND r.reacts_after IS NOT NULL) THEN
        RAISE EXCEPTION 'process % is not registered', quote_nullable(left(p_process, 64))
            USING ERRCODE = 'invalid_parameter_value',
                HINT = 'start the worker that has the process: it registers it, and reacts in its name';
    END IF;
    DELETE FROM tidemark.scheduled s
    WHERE s.timer = ANY (p_timers[:cardinality(p_campaign_ids)]) AND s.scheduled_by = p_process;
    docs := array(
        SELECT CASE WHEN d.ord = d.last THEN tidemark.decided_events(d.events::jsonb, p_process) END FROM (
            SELECT a.*, CASE WHEN a.timer IS NULL THEN a.ord ELSE max(a.ord) OVER (PARTITION BY a.timer) END AS last
            FROM unnest(p_timers[:cardinality(p_campaign_ids)], p_events[:cardinality(p_campaign_ids)])
                WITH ORDINALITY AS a (timer, events, ord)
        ) AS d ORDER BY d.ord);
    known := tidemark.schedule_new(p_campaign_ids, p_dues, docs, p_process, p_timers, p_expects, p_refused);
    FOR i IN 1 .. coalesce(cardinality(p_campaign_ids), 0) LOOP
        CONTINUE WHEN docs[i] IS NULL OR i <> ALL (known);
        made := tidemark.append_at(p_campaign_ids[i], p_dues[i], docs[i], p_process);
        IF p_timers[i] IS NOT NULL OR p_expects[i] IS NOT NULL THEN
            UPDATE tidemark.scheduled s SET timer = p_timers[i], events = CASE WHEN p_expects[i] IS NULL THEN s.events
                ELSE tidemark.expecting_events(s.events, p_expects[i], p_refused[i]) END
            WHERE s.id = made;
        END IF;
    END LOOP;
END
$$;
