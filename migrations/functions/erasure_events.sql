-- Erasures of events in the journal.

-- is_erased reports whether an erasure has taken all of an event, or with p_personal these fields of its
-- type. A mark that an append has written into its metadata hides no event from erasures.
CREATE OR REPLACE FUNCTION tidemark.is_erased(p_position bigint, p_type text, p_personal jsonb) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN EXISTS (SELECT FROM tidemark.erased_events e JOIN tidemark.erasures x ON x.id = e.erasure
        WHERE e.position = p_position AND (x.personal IS NULL
            OR coalesce(coalesce(x.took[e.calls + 1], x.personal) -> p_type @> (p_personal -> p_type), false)));

-- erased_of returns the events of subjects, or with these tags, that erasures have taken before but not all
-- of, or not p_personal of it. They cannot be found by what they say any more.
CREATE OR REPLACE FUNCTION tidemark.erased_of(p_subjects text[], p_personal jsonb)
    RETURNS TABLE (subject text, campaign_id text, seq bigint, left_over boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT s.subject, e.campaign_id, e.seq, NOT tidemark.is_erased(e.position, e.event_type, p_personal)
        AND (p_personal IS NULL OR p_personal ? e.event_type)
    FROM (SELECT u.subject, tidemark.derive('subject', sha256(convert_to(u.subject, 'UTF8'))) AS hash
        FROM unnest(p_subjects) AS u (subject) OFFSET 0) s
    JOIN tidemark.erased_subjects e ON e.hash = s.hash;
END
$$;
REVOKE ALL ON FUNCTION tidemark.erased_of FROM PUBLIC;

-- keep_subjects keeps the hashes of the tags of an event and of the subjects that p_paths lead to. Of a
-- sealed subject the key's row has the SHA-256.
CREATE OR REPLACE FUNCTION tidemark.keep_subjects(p_event tidemark.journal, p_paths jsonb) RETURNS void
    LANGUAGE plpgsql
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO tidemark.erased_subjects (hash, position, campaign_id, seq, event_type)
    SELECT tidemark.derive('subject', s.hash), p_event.position, p_event.campaign_id, p_event.seq, p_event.event_type
    FROM (
        SELECT sha256(convert_to(tag, 'UTF8')) AS hash FROM unnest(p_event.tags) AS tag
        UNION SELECT CASE jsonb_typeof(f.value) WHEN 'object' THEN (SELECT k.subject FROM tidemark.keys k
                WHERE k.id = CASE WHEN f.value ->> 'key' ~ '^[0-9a-f-]{36}$' THEN (f.value ->> 'key')::uuid END)
            ELSE sha256(convert_to(f.value #>> '{}', 'UTF8')) END
        FROM (SELECT v.value FROM jsonb_array_elements_text(p_paths) p (path)
            CROSS JOIN LATERAL tidemark.field_values(p_event.payload, p.path) v (value)) f
    ) s WHERE s.hash IS NOT NULL
    ON CONFLICT DO NOTHING;
END
$$;

-- append_notice appends the event that says which seqs an erasure has erased. Publishers send it, so that consumers
-- can follow. p_carried has type, intent and hashes of tags of the erased events, which decide what gets the notice.
CREATE OR REPLACE FUNCTION tidemark.append_notice(p_campaign_id text, p_erasure bigint, p_seqs bigint[],
    p_carried jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO tidemark.erasure_notices
    SELECT a.position, row_number() OVER (), c.type, c.intent, c.tags
    FROM tidemark.append_rows(p_campaign_id, jsonb_build_array(jsonb_build_object('type', 'events_erased', 'intent',
        'audit_only', 'payload', jsonb_build_object('erasure', p_erasure, 'seqs', p_seqs))), NULL, true) AS a
    CROSS JOIN (SELECT DISTINCT r.type, r.intent, array(SELECT decode(t, 'hex') FROM unnest(r.tags) AS t) AS tags
        FROM jsonb_to_recordset(p_carried) AS r (type text, intent tidemark.intent, tags text[])) AS c;
END
$$;

-- erase replaces payload and metadata of events of one campaign, and drops their tags, actor and
-- aggregate: place, type, id and times stay. If the erasure is of personal fields, it takes only these,
-- and beside the payload what tells the subject: erased_form. It leaves other types alone. If p_seqs is
-- NULL, it takes up to p_most events that are left. It appends an event that tells consumers, and returns
-- the erased seqs. It locks the campaign, as an append does. It is the only way to change the journal.
CREATE OR REPLACE FUNCTION tidemark.erase(p_erasure bigint, p_generation bigint, p_campaign_id text, p_seqs bigint[],
        p_most integer, p_subjects text[] DEFAULT NULL) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    mark CONSTANT jsonb := jsonb_build_object('$erased', p_erasure);
    x CONSTANT tidemark.erasures := tidemark.hold_erasure(p_erasure, p_generation, p_campaign_id);
    derived CONSTANT bytea := tidemark.derive('erasure', int8send(p_erasure));
    chosen bigint[];
    erased bigint[] := '{}';
    counts jsonb := '{}';
    n bigint;
    e tidemark.journal;
    after tidemark.journal;
    carried jsonb := '[]';
BEGIN
    PERFORM nextval('tidemark.erased'); -- processes drop pages with what the transaction before has erased
    PERFORM tidemark.lock_untagged(p_campaign_id, 'events_erased');
    PERFORM tidemark.refuse_archived(p_campaign_id, h.metadata) FROM (SELECT j.event_version, j.metadata
        FROM tidemark.journal j WHERE j.campaign_id = p_campaign_id ORDER BY j.seq DESC LIMIT 1) h
    WHERE h.event_version = 0;
    chosen := p_seqs;
    IF chosen IS NULL THEN
        SELECT array_agg(j.seq) INTO chosen FROM (SELECT j.seq FROM tidemark.journal j
            WHERE j.campaign_id = p_campaign_id
                AND NOT tidemark.is_erased(j.position, j.event_type, x.personal)
                AND j.event_type <> 'events_erased'
                AND (x.personal IS NULL OR x.personal ? j.event_type) ORDER BY j.seq LIMIT p_most) j;
    END IF;
    PERFORM tidemark.begin_change('erase');
    FOR e IN SELECT j.* FROM tidemark.journal j WHERE j.campaign_id = p_campaign_id AND j.seq = ANY (chosen)
        AND NOT tidemark.is_erased(j.position, j.event_type, x.personal)
        AND (x.personal IS NULL OR x.personal ? j.event_type)
        ORDER BY j.seq
    LOOP
        after := tidemark.erased_form(e, x.personal -> e.event_type, tidemark.subject_values(p_subjects)
            || array(SELECT e.payload #>> string_to_array(f.path, '.')
                FROM jsonb_array_elements_text(x.fields -> e.event_type) AS f (path)
                WHERE jsonb_typeof(e.payload #> string_to_array(f.path, '.')) IN ('string', 'number')));
        INSERT INTO tidemark.erased_events (erasure, position, event_id, tags, calls)
        VALUES (p_erasure, e.position, e.event_id, tidemark.tag_hashes(e.tags), cardinality(x.took))
        ON CONFLICT (erasure, position) DO UPDATE SET calls = excluded.calls; -- a continuation takes more fields
        PERFORM tidemark.keep_subjects(e, x.fields -> e.event_type);
        INSERT INTO tidemark.erased_values (erasure, hash, words)
        SELECT p_erasure, h.* FROM tidemark.erased_hashes(derived, array(
            SELECT t FROM tidemark.erasable(tidemark.event_texts(e)) AS t
            WHERE t NOT IN (e.campaign_id, e.event_id::text, e.event_type)
                AND t NOT IN (SELECT tidemark.erasable(tidemark.event_texts(after))))) h
        ON CONFLICT DO NOTHING;
        after.metadata := coalesce(after.metadata, '{}') - '$command' || mark; -- a hash of what a command asked
        UPDATE tidemark.journal j SET payload = after.payload, metadata = after.metadata, tags = after.tags,
            actor = after.actor, aggregate_type = after.aggregate_type, aggregate_id = after.aggregate_id,
            payload_bytes = least(j.payload_bytes,
                100 + octet_length(after.payload::text) + octet_length(after.metadata::text))
        WHERE j.campaign_id = e.campaign_id AND j.seq = e.seq;
        erased := erased || e.seq;
        carried := carried || jsonb_build_object('type', e.event_type, 'intent', e.intent, 'tags', array(
            SELECT DISTINCT encode(t.hash, 'hex') FROM tidemark.erased_events h CROSS JOIN LATERAL unnest(h.tags) AS t (hash)
            WHERE h.position = e.position ORDER BY 1));
        DELETE FROM tidemark.event_tags t WHERE t.tag = ANY (e.tags) AND t.tag <> ALL (coalesce(after.tags, '{}'))
            AND t.event_type = e.event_type AND t.position = e.position;
        GET DIAGNOSTICS n = ROW_COUNT;
        counts := counts || jsonb_build_object('event_tags', coalesce((counts ->> 'event_tags')::bigint, 0) + n);
    END LOOP;
    PERFORM tidemark.end_change();
    IF cardinality(erased) > 0 THEN
        PERFORM tidemark.append_notice(p_campaign_id, p_erasure, erased, carried);
        PERFORM tidemark.log_act(x.actor, 'events_erased', x.reason, '', '', p_campaign_id, 0,
            jsonb_build_object('erasure', p_erasure, 'events', cardinality(erased)), '', 0, '');
    END IF;

    counts := counts || jsonb_build_object('journal', cardinality(erased));
    PERFORM tidemark.count_erased(p_erasure, counts);
    RETURN erased;
END
$$;
REVOKE ALL ON FUNCTION tidemark.erase FROM PUBLIC;

-- import_erased is append_all for exported lines that tell of erasures: erased events, and the notices of
-- these. It refuses them unless they are as an erasure writes them. A notice is published to topics that
-- have events of the kinds that the erased ones still are.
CREATE OR REPLACE FUNCTION tidemark.import_erased(p_batches jsonb)
    RETURNS TABLE (campaign_id text, seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    good CONSTANT boolean := tidemark.check_batches(p_batches);
    all_events CONSTANT jsonb := jsonb_path_query_array(p_batches, '$[*].events[*]');
    batch record;
BEGIN
    IF EXISTS (SELECT FROM jsonb_array_elements(all_events) AS e WHERE e -> 'metadata' ? '$archived'
        OR e -> 'metadata' ? '$erased' AND NOT coalesce(e -> 'metadata' ->> '$erased' ~ '^[0-9]{1,18}$', false)
        OR e ->> 'type' = 'events_erased' AND NOT coalesce(e ->> 'intent' = 'audit_only' AND e -> 'tags' IS NULL
            AND (e -> 'payload') - '{erasure,seqs}'::text[] = '{}' AND e -> 'payload' ->> 'erasure' ~ '^[0-9]{1,18}$'
            AND jsonb_typeof(e -> 'payload' -> 'seqs') = 'array' AND NOT jsonb_path_exists(e -> 'payload',
                'strict $.seqs[*] ? (@.type() != "number")'), false)) THEN
        RAISE EXCEPTION 'import: a line has the type events_erased or metadata $erased or $archived, and is not as an erasure writes it'
            USING ERRCODE = 'TM004', HINT = 'import lines as tidemark events export has written them';
    END IF;
    PERFORM tidemark.lock_keys(tidemark.touched_types(all_events), tidemark.touched_tags(all_events), '{}',
        array(SELECT DISTINCT b ->> 'campaign_id' FROM jsonb_array_elements(p_batches) AS b));
    FOR batch IN
        SELECT b ->> 'campaign_id' AS id, b -> 'events' AS events, (b ->> 'expect')::bigint AS expect
            FROM jsonb_array_elements(p_batches) AS b WHERE b -> 'events' <> '[]'
    LOOP
        FOR seq, position, event_id, duplicate IN
            SELECT a.* FROM tidemark.append_rows(batch.id, batch.events, batch.expect, true) AS a
        LOOP
            campaign_id := batch.id;
            INSERT INTO tidemark.erasure_notices
            SELECT notice.position, row_number() OVER (), c.event_type, c.intent, c.tags
            FROM tidemark.journal notice CROSS JOIN LATERAL (
                SELECT DISTINCT j.event_type, j.intent, tidemark.tag_hashes(j.tags) AS tags
                FROM tidemark.journal j WHERE j.campaign_id = notice.campaign_id
                    AND j.seq IN (SELECT s::bigint FROM jsonb_array_elements_text(notice.payload -> 'seqs') AS s)
                    AND j.metadata ? '$erased'
            ) AS c
            WHERE notice.campaign_id = import_erased.campaign_id AND notice.seq = import_erased.seq
                AND notice.event_type = 'events_erased' AND NOT import_erased.duplicate;
            RETURN NEXT;
        END LOOP;
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION tidemark.import_erased FROM PUBLIC;
