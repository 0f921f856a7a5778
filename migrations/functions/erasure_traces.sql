-- Erasures of what other tables tell of events.

-- erase_traces takes what failed campaigns, parked events and the failure log tell of a campaign, and
-- with p_scheduled its scheduled appends. Callers have fenced the leases before, as workers lock them
-- before the rows of failed campaigns.
CREATE OR REPLACE FUNCTION tidemark.erase_traces(p_erasure bigint, p_generation bigint, p_campaign_id text,
        p_scheduled boolean)
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    counts jsonb := '{}';
    n bigint;
BEGIN
    PERFORM tidemark.hold_erasure(p_erasure, p_generation, p_campaign_id);
    UPDATE tidemark.failed d SET error_message = 'erased', error_stack = NULL, fingerprint = NULL
    WHERE d.campaign_id = p_campaign_id AND d.error_message IS NOT NULL;
    GET DIAGNOSTICS n = ROW_COUNT;
    counts := counts || jsonb_build_object('failed', n);
    UPDATE tidemark.failure_log l SET error_message = 'erased', error_stack = NULL, fingerprint = NULL
    WHERE l.campaign_id = p_campaign_id AND l.error_message IS NOT NULL;
    GET DIAGNOSTICS n = ROW_COUNT;
    counts := counts || jsonb_build_object('failure_log', n);
    UPDATE tidemark.parked k SET error_message = 'erased'
    WHERE k.campaign_id = p_campaign_id AND k.error_message IS NOT NULL;
    GET DIAGNOSTICS n = ROW_COUNT;
    counts := counts || jsonb_build_object('parked', n);
    n := 0;
    IF p_scheduled THEN
        DELETE FROM tidemark.scheduled s WHERE s.campaign_id = p_campaign_id;
        GET DIAGNOSTICS n = ROW_COUNT;
    END IF;
    counts := counts || jsonb_build_object('scheduled', n);
    PERFORM tidemark.count_erased(p_erasure, counts);
END
$$;
REVOKE ALL ON FUNCTION tidemark.erase_traces FROM PUBLIC;

-- erase_scheduled deletes or changes the scheduled appends about the subjects, or about p_campaign_id, in
-- all campaigns. Without p_personal it deletes those that have an event of a subject, by its tags or by the
-- fields p_fields, or that hold a subject in a text or the name of a timer. With p_personal it takes these
-- fields from the events of the subjects. If a subject field is one of them, it then deletes those that still
-- hold a subject. It reads p_most rows after p_after and returns the id of the last, NULL at the end, and
-- the number of rows. Without an erasure it only counts.
CREATE OR REPLACE FUNCTION tidemark.erase_scheduled(p_erasure bigint, p_generation bigint, p_campaign_id text,
        p_subjects text[], p_fields jsonb, p_personal jsonb, p_after bigint, p_most integer, OUT last bigint,
        OUT changed bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    subjects CONSTANT text[] := coalesce(p_subjects, '{}');
    held CONSTANT text[] := tidemark.subject_values(subjects);
    keys CONSTANT text[] := array(SELECT k.id::text FROM tidemark.keys k
        WHERE k.subject IN (SELECT sha256(convert_to(s, 'UTF8')) FROM unnest(subjects) AS s));
    named CONSTANT boolean := p_personal IS NULL OR EXISTS (SELECT FROM jsonb_each(p_fields) AS f
        WHERE EXISTS (SELECT FROM jsonb_array_elements_text(f.value) AS v WHERE p_personal -> f.key ? v));
    derived bytea;
    s tidemark.scheduled;
    kept jsonb;
    said jsonb;
BEGIN
    IF p_erasure IS NOT NULL THEN
        PERFORM tidemark.hold_erasure(p_erasure, p_generation, p_campaign_id);
        derived := tidemark.derive('erasure', int8send(p_erasure));
    END IF;
    changed := 0;
    SELECT max(x.id) INTO last
    FROM (SELECT x.id FROM tidemark.scheduled x WHERE x.id > p_after ORDER BY x.id LIMIT p_most) x;
    IF p_erasure IS NOT NULL THEN -- one that is being made is then an event
        PERFORM FROM tidemark.scheduled x WHERE x.id > p_after AND x.id <= last ORDER BY x.id FOR UPDATE;
    END IF;
    FOR s IN SELECT * FROM tidemark.scheduled x WHERE x.id > p_after AND x.id <= last ORDER BY x.id LOOP
        -- What is left of each event that is about them, and what it said.
        SELECT jsonb_agg(CASE WHEN e.about THEN (e.event - '{payload,metadata,tags,actor,aggregate_type,aggregate_id}'::text[])
                || (SELECT jsonb_object_agg(v.key, v.value) FROM (VALUES ('payload', (f).payload), ('metadata', (f).metadata),
                    ('tags', to_jsonb((f).tags)), ('actor', to_jsonb((f).actor)), ('aggregate_id', to_jsonb((f).aggregate_id)),
                    ('aggregate_type', to_jsonb((f).aggregate_type))) AS v (key, value) WHERE v.value IS NOT NULL)
                ELSE e.event END ORDER BY e.n),
            coalesce(jsonb_agg(tidemark.event_texts(e.was)) FILTER (WHERE e.about), '[]')
        INTO kept, said
        FROM (
            SELECT x.event, x.n, x.was, CASE WHEN x.about THEN tidemark.erased_form(x.was, p_personal -> (x.event ->> 'type'),
                held) END AS f, x.about
            FROM (
                SELECT a.event, a.n, jsonb_populate_record(NULL::tidemark.journal, a.event) AS was,
                    (p_personal IS NULL OR p_personal ? (a.event ->> 'type')) AND (s.campaign_id = p_campaign_id
                        OR coalesce(a.event -> 'tags' ?| subjects, false)
                        OR EXISTS (SELECT FROM jsonb_array_elements_text(p_fields -> (a.event ->> 'type')) AS f (path)
                            CROSS JOIN LATERAL tidemark.field_values(a.event -> 'payload', f.path) AS v (value)
                            WHERE v.value #>> '{}' = ANY (subjects) OR v.value ->> 'key' = ANY (keys))) AS about
                FROM jsonb_array_elements(s.events) WITH ORDINALITY AS a (event, n) OFFSET 0
            ) AS x OFFSET 0
        ) AS e;
        IF p_personal IS NULL AND said <> '[]' OR named AND held <> '{}' AND (tidemark.holds(s.timer, held)
            OR EXISTS (SELECT FROM unnest(held) AS v (value) WHERE starts_with(s.timer,
                format('%s/%s:%s/', s.scheduled_by, octet_length(v.value), v.value))) -- kind.timerName
            OR EXISTS (SELECT FROM jsonb_array_elements(kept) AS e CROSS JOIN LATERAL jsonb_path_query(
                e - '{id,type,version,intent,occurred_at}'::text[], 'strict $.** ? (@.type() == "string")') AS v
                WHERE tidemark.holds(v #>> '{}', held))) THEN
            DELETE FROM tidemark.scheduled x WHERE x.id = s.id AND p_erasure IS NOT NULL;
            changed := changed + 1;
        ELSIF kept <> s.events THEN
            UPDATE tidemark.scheduled x SET events = kept, error = NULL WHERE x.id = s.id AND p_erasure IS NOT NULL;
            changed := changed + 1;
        END IF;
        CONTINUE WHEN p_erasure IS NULL;
        INSERT INTO tidemark.erased_values (erasure, hash, words)
        SELECT p_erasure, h.* FROM tidemark.erased_hashes(derived, array(SELECT t FROM tidemark.erasable(said) AS t
            WHERE p_personal IS NULL OR t NOT IN (SELECT tidemark.erasable(kept)))) h
        ON CONFLICT DO NOTHING;
    END LOOP;
    PERFORM tidemark.count_erased(p_erasure, jsonb_build_object('scheduled', changed));
END
$$;
REVOKE ALL ON FUNCTION tidemark.erase_scheduled FROM PUBLIC;

-- erase_keys takes the keys of erased events from the failure log of projections across campaigns: keys
-- may be names. These are keys of failures at the events, keys that an erased value is, and p_subjects.
-- It reads p_most rows after p_after and returns the id of the last, NULL at the end of the log.
CREATE OR REPLACE FUNCTION tidemark.erase_keys(p_erasure bigint, p_generation bigint, p_subjects text[], p_after bigint,
        p_most integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    derived CONSTANT bytea := tidemark.derive('erasure', int8send(p_erasure));
    last bigint;
    n bigint;
BEGIN
    PERFORM tidemark.hold_erasure(p_erasure, p_generation);
    SELECT max(l.id) INTO last
    FROM (SELECT l.id FROM tidemark.failure_log l WHERE l.id > p_after ORDER BY l.id LIMIT p_most) l;
    WITH told AS MATERIALIZED ( -- the log has a key many times
        SELECT k.key
        FROM (SELECT DISTINCT l.campaign_id AS key
            FROM tidemark.failure_log l JOIN tidemark.projections p
                ON p.scope = 'journal' AND split_part(l.projection, '~', 1) = p.name
            WHERE l.id > p_after AND l.id <= last AND l.campaign_id <> 'erased') k
        WHERE EXISTS (SELECT FROM tidemark.erased_hashes(derived, ARRAY[k.key]) h
            JOIN tidemark.erased_values v ON v.erasure = p_erasure AND v.hash = h.hash)
    )
    UPDATE tidemark.failure_log l SET campaign_id = 'erased', error_stack = NULL, fingerprint = NULL,
        error_message = CASE WHEN l.error_message IS NOT NULL THEN 'erased' END
    FROM tidemark.projections p
    WHERE l.id > p_after AND l.id <= last AND p.scope = 'journal' AND split_part(l.projection, '~', 1) = p.name
        AND l.campaign_id <> 'erased' AND (l.campaign_id = ANY (p_subjects)
            OR EXISTS (SELECT FROM tidemark.erased_events e WHERE e.erasure = p_erasure AND e.position = l.seq)
            OR l.campaign_id IN (SELECT t.key FROM told t));
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM tidemark.count_erased(p_erasure, jsonb_build_object('failure_log', n));
    RETURN last;
END
$$;
REVOKE ALL ON FUNCTION tidemark.erase_keys FROM PUBLIC;

-- erase_items takes the keys of subjects and of erased events from the items and requests of operations. It
-- reads p_most operations after p_after and returns the id of the last, NULL at the end.
CREATE OR REPLACE FUNCTION tidemark.erase_items(p_erasure bigint, p_generation bigint, p_subjects text[],
        p_after bigint, p_most integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    derived CONSTANT bytea := tidemark.derive('erasure', int8send(p_erasure));
    last bigint;
    n bigint;
    o record;
BEGIN
    PERFORM tidemark.hold_erasure(p_erasure, p_generation);
    SELECT max(x.id) INTO last
    FROM (SELECT x.id FROM tidemark.operations x WHERE x.id > p_after ORDER BY x.id LIMIT p_most) x;
    WITH told AS MATERIALIZED (
        SELECT k.key
        FROM (SELECT DISTINCT i.campaign_id AS key FROM tidemark.operation_items i
            WHERE i.operation_id > p_after AND i.operation_id <= last) k
        WHERE EXISTS (SELECT FROM tidemark.erased_hashes(derived, ARRAY[k.key]) h
            JOIN tidemark.erased_values v ON v.erasure = p_erasure AND v.hash = h.hash)
    )
    UPDATE tidemark.operation_items i SET campaign_id = 'erased',
        detail = CASE WHEN i.detail IS NOT NULL THEN 'erased' END
    WHERE i.operation_id > p_after AND i.operation_id <= last AND i.campaign_id <> 'erased'
        AND (i.campaign_id = ANY (p_subjects) OR i.campaign_id IN (SELECT t.key FROM told t));
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM tidemark.count_erased(p_erasure, jsonb_build_object('operation_items', n));
    n := 0;
    FOR o IN SELECT x.id, array(SELECT t FROM tidemark.erasable(jsonb_build_array(x.request, x.progress)) AS t
            WHERE t = ANY (p_subjects) OR EXISTS (SELECT FROM tidemark.erased_hashes(derived, ARRAY[t]) h
                JOIN tidemark.erased_values v ON v.erasure = p_erasure AND v.hash = h.hash)) || coalesce(p_subjects, '{}') AS held
        FROM tidemark.operations x WHERE x.id > p_after AND x.id <= last ORDER BY x.id
    LOOP
        UPDATE tidemark.operations x SET request = tidemark.without(x.request, o.held, '"erased"'),
            progress = tidemark.without(x.progress, o.held, '"erased"'), error = CASE WHEN x.error IS NOT NULL THEN 'erased' END
        WHERE x.id = o.id AND x.request <> tidemark.without(x.request, o.held, '"erased"');
        IF FOUND THEN
            n := n + 1;
        END IF;
    END LOOP;
    PERFORM tidemark.count_erased(p_erasure, jsonb_build_object('operations', n));
    RETURN last;
END
$$;
REVOKE ALL ON FUNCTION tidemark.erase_items FROM PUBLIC;

-- forget_statistics has the planner forget what it knows of values that are gone. ANALYZE leaves what it
-- knows of a table without rows, so such a table has one meanwhile. The lock holds up nothing but a vacuum.
CREATE OR REPLACE FUNCTION tidemark.forget_statistics() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET lock_timeout = '10s'
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO tidemark.event_tags SELECT '', '', 0 WHERE NOT EXISTS (SELECT FROM tidemark.event_tags);
    INSERT INTO tidemark.scheduled (id, campaign_id, due_at, attempt_at, events) OVERRIDING SYSTEM VALUE
    SELECT 0, '', 'infinity', 'infinity', '[]' WHERE NOT EXISTS (SELECT FROM tidemark.scheduled);
    INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status)
    SELECT '', '', '', 0, 'dead' WHERE NOT EXISTS (SELECT FROM tidemark.failed);
    INSERT INTO tidemark.failure_log (id, act, consumer_group) OVERRIDING SYSTEM VALUE
    SELECT 0, 'removed', '' WHERE NOT EXISTS (SELECT FROM tidemark.failure_log);
    INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, status)
    SELECT '', '', '', 0, false, 0, 'parked' WHERE NOT EXISTS (SELECT FROM tidemark.parked);
    INSERT INTO tidemark.readers (topic, publisher, position) SELECT '', '', 0
    WHERE NOT EXISTS (SELECT FROM tidemark.readers);
    INSERT INTO tidemark.resolutions SELECT '', '', 0, '', '' WHERE NOT EXISTS (SELECT FROM tidemark.resolutions);
    INSERT INTO tidemark.operations (id, kind, request, actor, state) OVERRIDING SYSTEM VALUE
    SELECT 0, '', '{}', '', 'done' WHERE NOT EXISTS (SELECT FROM tidemark.operation_items);
    INSERT INTO tidemark.operation_items SELECT 0, 0, '', '', 0 WHERE NOT EXISTS (SELECT FROM tidemark.operation_items);
    ANALYZE tidemark.journal, tidemark.event_tags, tidemark.scheduled, tidemark.failed, tidemark.failure_log,
        tidemark.parked, tidemark.readers, tidemark.resolutions, tidemark.operations, tidemark.operation_items;
    PERFORM tidemark.begin_change('erase');
    DELETE FROM tidemark.event_tags WHERE tag = '' AND event_type = '' AND position = 0;
    PERFORM tidemark.end_change();
    DELETE FROM tidemark.scheduled WHERE id = 0;
    DELETE FROM tidemark.failed WHERE campaign_id = '' AND projection = '';
    DELETE FROM tidemark.failure_log WHERE id = 0;
    DELETE FROM tidemark.parked WHERE topic = '' AND publisher = '' AND campaign_id = '';
    DELETE FROM tidemark.readers WHERE topic = '' AND publisher = '';
    DELETE FROM tidemark.resolutions WHERE campaign_id = '' AND projection = '';
    DELETE FROM tidemark.operations WHERE id = 0; -- with its item
END
$$;
REVOKE ALL ON FUNCTION tidemark.forget_statistics FROM PUBLIC;
