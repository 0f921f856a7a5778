-- The record of an erasure: its beginning, its holder, its end.

-- count_erased adds numbers of changed rows, by table, to those of an erasure.
CREATE OR REPLACE FUNCTION tidemark.count_erased(p_erasure bigint, p_counts jsonb) RETURNS void
    LANGUAGE sql
BEGIN ATOMIC
    UPDATE tidemark.erasures x SET changed = (
        SELECT jsonb_object_agg(k.key, coalesce((x.changed ->> k.key)::bigint, 0) + k.value::bigint)
        FROM jsonb_each_text(p_counts) k) || (x.changed - array(SELECT jsonb_object_keys(p_counts)))
    WHERE x.id = p_erasure;
END;

-- merge_paths returns the paths of two objects of arrays of paths by event type; NULL if one is NULL.
CREATE OR REPLACE FUNCTION tidemark.merge_paths(p_a jsonb, p_b jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN p_a IS NOT NULL AND p_b IS NOT NULL THEN (
        SELECT coalesce(jsonb_object_agg(t.key, t.paths), '{}') FROM (
            SELECT e.key, jsonb_agg(DISTINCT p.path) AS paths FROM (VALUES (p_a), (p_b)) v (paths)
                CROSS JOIN LATERAL jsonb_each(v.paths) e CROSS JOIN LATERAL jsonb_array_elements(e.value) p (path)
            GROUP BY e.key) t
    ) END
$$;

-- begin_erasure puts a request on record, and returns the erasure with its key. If the same request was
-- interrupted, it takes that erasure over, with the fields of both calls. Erased events have the number of their
-- call, so none of them changes. While another holds it, it raises TM017. Without p_new it begins no new one and
-- returns no row. The log of operators has each holder.
CREATE OR REPLACE FUNCTION tidemark.begin_erasure(p_campaign_id text, p_subjects text[], p_fields jsonb,
        p_personal jsonb, p_actor text, p_reason text, p_new boolean)
    RETURNS TABLE (id bigint, generation bigint, key bytea, began_at timestamptz, continued boolean, fields jsonb,
        personal jsonb, changed jsonb)
    LANGUAGE plpgsql SECURITY DEFINER
    SET lock_timeout = '3s' SET timezone = 'UTC' SET datestyle = 'ISO'
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    hash CONSTANT bytea := tidemark.derive('request', convert_to(jsonb_build_object('campaign', p_campaign_id,
        'subjects', (SELECT to_jsonb(array_agg(DISTINCT s.subject COLLATE "C")) FROM unnest(p_subjects) s (subject)),
        'personal', p_personal IS NOT NULL)::text, 'UTF8'));
    x tidemark.erasures;
    again boolean := true;
BEGIN
    IF (p_campaign_id IS NULL) = (coalesce(p_subjects, '{}') = '{}') THEN
        RAISE EXCEPTION 'an erasure is of a campaign or of subjects' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'erase with tidemark campaign erase or subject erase';
    END IF;
    SELECT * INTO x FROM tidemark.erasures e WHERE e.request = hash AND e.ended_at IS NULL;
    IF NOT FOUND AND NOT p_new THEN
        RETURN;
    ELSIF NOT FOUND THEN
        -- Wait for archives that are being written. Those that begin later see the erasure.
        PERFORM pg_advisory_xact_lock(tidemark.lock_key(32009, 0));
        INSERT INTO tidemark.erasures AS e (request, campaign_id, fields, personal, actor, reason, holder, held_until)
        VALUES (hash, p_campaign_id, coalesce(p_fields, '{}'), p_personal, p_actor, p_reason, p_actor,
            clock_timestamp() + interval '30 s')
        ON CONFLICT (request) WHERE ended_at IS NULL DO NOTHING RETURNING * INTO x;
        again := x.id IS NULL; -- another session was first
        IF again THEN
            SELECT * INTO STRICT x FROM tidemark.erasures e WHERE e.request = hash AND e.ended_at IS NULL;
        END IF;
    END IF;
    IF again THEN
        UPDATE tidemark.erasures e SET generation = e.generation + 1, holder = p_actor, login = session_user,
            held_until = clock_timestamp() + interval '30 s', fields = tidemark.merge_paths(e.fields, coalesce(p_fields, '{}')),
            personal = tidemark.merge_paths(e.personal, p_personal), took = e.took || CASE
                WHEN e.personal <> tidemark.merge_paths(e.personal, p_personal) THEN ARRAY[e.personal] END,
            abandoned_by = NULL, abandon_reason = NULL
        WHERE e.id = x.id AND e.generation = x.generation AND e.ended_at IS NULL AND e.held_until <= clock_timestamp()
        RETURNING * INTO x;
        IF NOT FOUND THEN
            SELECT * INTO x FROM tidemark.erasures e WHERE e.request = hash ORDER BY e.id DESC LIMIT 1;
            RAISE EXCEPTION 'erasure % is carried out by %, who holds it until %', x.id, left(x.holder, 64), x.held_until
                USING ERRCODE = 'TM017', HINT = 'wait until then, and erase again if it has not ended',
                    DETAIL = jsonb_build_object('erasure', x.id, 'holder', x.holder, 'until', x.held_until)::text;
        END IF;
    END IF;
    PERFORM tidemark.log_act(p_actor, 'erasure_begun', p_reason, '', '', p_campaign_id, 0,
        jsonb_build_object('erasure', x.id, 'generation', x.generation), '', 0, '');
    RETURN QUERY SELECT x.id, x.generation, tidemark.derive('erasure', int8send(x.id)), x.began_at, again, x.fields,
        x.personal, x.changed;
END
$$;
REVOKE ALL ON FUNCTION tidemark.begin_erasure FROM PUBLIC;

-- abandon_erasure takes over an erasure that was interrupted, so that the caller ends it with what is erased so
-- far. Its request may be forgotten. While another holds it, it raises TM017. It returns no row if there is no
-- such erasure, or if it has ended.
CREATE OR REPLACE FUNCTION tidemark.abandon_erasure(p_erasure bigint, p_actor text, p_reason text)
    RETURNS TABLE (id bigint, generation bigint, key bytea, began_at timestamptz, continued boolean, fields jsonb,
        personal jsonb, changed jsonb, campaign_id text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET lock_timeout = '3s' SET timezone = 'UTC' SET datestyle = 'ISO'
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    x tidemark.erasures;
BEGIN
    UPDATE tidemark.erasures e SET generation = e.generation + 1, holder = p_actor, login = session_user,
        held_until = clock_timestamp() + interval '30 s', abandoned_by = p_actor, abandon_reason = p_reason
    WHERE e.id = p_erasure AND e.ended_at IS NULL AND e.held_until <= clock_timestamp()
    RETURNING * INTO x;
    IF NOT FOUND THEN
        SELECT * INTO x FROM tidemark.erasures e WHERE e.id = p_erasure AND e.ended_at IS NULL;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        RAISE EXCEPTION 'erasure % is carried out by %, who holds it until %', x.id, left(x.holder, 64), x.held_until
            USING ERRCODE = 'TM017', HINT = 'wait until then, and abandon it if it has not ended',
                DETAIL = jsonb_build_object('erasure', x.id, 'holder', x.holder, 'until', x.held_until)::text;
    END IF;
    PERFORM tidemark.log_act(p_actor, 'erasure_begun', p_reason, '', '', x.campaign_id, 0,
        jsonb_build_object('erasure', x.id, 'generation', x.generation, 'abandons', true), '', 0, '');
    RETURN QUERY SELECT x.id, x.generation, tidemark.derive('erasure', int8send(x.id)), x.began_at, true, x.fields,
        x.personal, x.changed, coalesce(x.campaign_id, '');
END
$$;
REVOKE ALL ON FUNCTION tidemark.abandon_erasure FROM PUBLIC;

-- erasure_key returns the key of an erasure that has not ended, so that what a killed call has erased can be
-- searched for. The certificate has the key of one that has ended.
CREATE OR REPLACE FUNCTION tidemark.erasure_key(p_erasure bigint) RETURNS TABLE (key bytea, began_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT tidemark.derive('erasure', int8send(x.id)), x.began_at FROM tidemark.erasures x
    WHERE x.id = p_erasure AND x.ended_at IS NULL
$$;
REVOKE ALL ON FUNCTION tidemark.erasure_key FROM PUBLIC;

-- hold_erasure has the holder of an erasure hold it for 30 seconds more, and returns it. It raises TM017 if
-- another has taken it over, or if it has ended. All operators can read number and generation, so it asks for
-- the holder's login too. p_campaign_id is what the caller is about to change: an erasure of one campaign
-- changes no other.
CREATE OR REPLACE FUNCTION tidemark.hold_erasure(p_erasure bigint, p_generation bigint, p_campaign_id text DEFAULT NULL)
    RETURNS tidemark.erasures
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    x tidemark.erasures;
BEGIN
    UPDATE tidemark.erasures e SET held_until = clock_timestamp() + interval '30 s'
    WHERE e.id = p_erasure AND e.generation = p_generation AND e.login = session_user AND e.ended_at IS NULL
    RETURNING * INTO x;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'erasure % is not held by this call any more', p_erasure
            USING ERRCODE = 'TM017', HINT = 'tidemark erase list shows it; erase again if it has not ended';
    ELSIF p_campaign_id <> x.campaign_id THEN
        RAISE EXCEPTION 'erasure % is of campaign %, and not of %', p_erasure, left(x.campaign_id, 64),
            left(p_campaign_id, 64)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'begin an erasure of that campaign';
    END IF;
    RETURN x;
END
$$;
REVOKE ALL ON FUNCTION tidemark.hold_erasure FROM PUBLIC;

-- release_erasure lets the same request take an erasure over at once.
CREATE OR REPLACE FUNCTION tidemark.release_erasure(p_erasure bigint, p_generation bigint) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE tidemark.erasures e SET held_until = clock_timestamp()
    WHERE e.id = p_erasure AND e.generation = p_generation AND e.login = session_user AND e.ended_at IS NULL
$$;
REVOKE ALL ON FUNCTION tidemark.release_erasure FROM PUBLIC;

-- end_erasure ends an erasure and returns the numbers of changed rows by table. It reads resolutions of
-- projections across campaigns once. They keep the events, and no key but those that the event still tells: with
-- several keys, nothing else says which was resolved. Errors of publishers go.
CREATE OR REPLACE FUNCTION tidemark.end_erasure(p_erasure bigint, p_generation bigint) RETURNS jsonb
    LANGUAGE plpgsql SECURITY DEFINER
    SET lock_timeout = '10s'
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    x CONSTANT tidemark.erasures := tidemark.hold_erasure(p_erasure, p_generation);
BEGIN
    WITH gone AS (
        DELETE FROM tidemark.resolutions r USING tidemark.erased_events e, tidemark.projections p
        WHERE e.erasure = x.id AND r.seq = e.position AND p.scope = 'journal' AND r.projection = p.name
            AND r.campaign_id <> 'erased' AND NOT tidemark.tells(e.position, r.campaign_id)
        RETURNING r.projection, r.seq, r.actor, r.reason, r.resolved_at
    )
    INSERT INTO tidemark.resolutions (campaign_id, projection, seq, actor, reason, resolved_at)
    SELECT 'erased', g.* FROM gone g ON CONFLICT DO NOTHING;
    -- A publisher may have been writing an error while the events were erased.
    UPDATE tidemark.parked k SET error_message = 'erased' FROM tidemark.erased_events e
    WHERE e.erasure = x.id AND k.error_message <> 'erased' AND e.position = (
        SELECT j.position FROM tidemark.journal j WHERE j.campaign_id = k.campaign_id AND j.seq = k.seq);
    ANALYZE tidemark.parked, tidemark.resolutions; -- again, as forget_statistics came before
    -- The last error of a reader may tell of any event. Its locks are held for the time of a short write: the
    -- table is locked first, as ANALYZE does, because a vacuum may have to end for that.
    LOCK TABLE tidemark.readers IN SHARE UPDATE EXCLUSIVE MODE;
    PERFORM FROM tidemark.readers r WHERE r.last_error <> 'erased' ORDER BY r.topic, r.publisher FOR UPDATE;
    UPDATE tidemark.readers r SET last_error = 'erased', reason = CASE WHEN r.reason = r.last_error THEN 'erased' ELSE r.reason END
    WHERE r.last_error <> 'erased';
    ANALYZE tidemark.readers;
    UPDATE tidemark.erasures e SET ended_at = clock_timestamp() WHERE e.id = x.id;
    RETURN x.changed;
END
$$;
REVOKE ALL ON FUNCTION tidemark.end_erasure FROM PUBLIC;
