-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- One row stands for one call of an operator who erases a campaign or a subject. The subject's key is
-- not kept: it may be a person's name.
CREATE TABLE tidemark.erasures (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    campaign_id text COLLATE "C",
    actor       text COLLATE "C" NOT NULL,
    reason      text             NOT NULL,
    began_at    timestamptz      NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz,
    changed     jsonb            NOT NULL DEFAULT '{}'
);
COMMENT ON TABLE tidemark.erasures IS 'Erasures of campaigns and subjects. Kept as long as the journal.';
COMMENT ON COLUMN tidemark.erasures.id IS 'number, which erased events have in their metadata';
COMMENT ON COLUMN tidemark.erasures.campaign_id IS 'campaign, NULL for a subject';
COMMENT ON COLUMN tidemark.erasures.actor IS 'operator';
COMMENT ON COLUMN tidemark.erasures.reason IS 'reason of the operator';
COMMENT ON COLUMN tidemark.erasures.began_at IS 'time of the first event';
COMMENT ON COLUMN tidemark.erasures.ended_at IS 'time of the last, NULL if it was interrupted';
COMMENT ON COLUMN tidemark.erasures.changed IS 'number of rows that were changed, by table';

-- Grows when events have been erased. Processes that keep pages of the journal in memory read it every
-- second, and then drop them.
CREATE SEQUENCE tidemark.erased AS bigint MINVALUE 0 START 0 CACHE 1;
SELECT nextval('tidemark.erased'); -- the next call moves last_value
COMMENT ON SEQUENCE tidemark.erased IS 'Grows when events have been erased, so that processes drop pages in memory.';

-- The events of an erasure.
CREATE TABLE tidemark.erased_events (
    erasure  bigint NOT NULL REFERENCES tidemark.erasures,
    position bigint NOT NULL,
    event_id uuid   NOT NULL,
    PRIMARY KEY (erasure, position)
);
COMMENT ON TABLE tidemark.erased_events IS 'Events of an erasure.';
COMMENT ON COLUMN tidemark.erased_events.erasure IS 'the erasure';
COMMENT ON COLUMN tidemark.erased_events.position IS 'position of the event';
COMMENT ON COLUMN tidemark.erased_events.event_id IS 'id of the event';

-- Hashes of the values that were erased, with a key that only the certificate has. So they tell
-- nothing, and a search with the key finds the values wherever they are left.
CREATE TABLE tidemark.erased_values (
    erasure bigint NOT NULL REFERENCES tidemark.erasures,
    hash    bytea  NOT NULL,
    PRIMARY KEY (erasure, hash)
);
COMMENT ON TABLE tidemark.erased_values IS 'Keyed hashes of the values that an erasure has erased.';
COMMENT ON COLUMN tidemark.erased_values.erasure IS 'the erasure';
COMMENT ON COLUMN tidemark.erased_values.hash IS 'SHA-256 of the certificate''s key and the value';

-- One random secret, which only functions of the owner read. Hashes that the database must be able to
-- make again depend on it.
CREATE TABLE tidemark.erasure_secret (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    secret   bytea   NOT NULL CHECK (octet_length(secret) = 32)
);
COMMENT ON TABLE tidemark.erasure_secret IS 'A random secret of this installation: one row, which only the owner reads.';
COMMENT ON COLUMN tidemark.erasure_secret.only_row IS 'always true, so that there is one row';
COMMENT ON COLUMN tidemark.erasure_secret.secret IS '32 random bytes';
INSERT INTO tidemark.erasure_secret (secret)
SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

-- secret_hash returns a keyed hash of a value, the same one each time in this database. p_use keeps hashes
-- of different uses apart.
CREATE FUNCTION tidemark.secret_hash(p_use text, p_value text) RETURNS bytea
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT sha256(s.secret || sha256(s.secret || convert_to(p_use, 'UTF8')) || convert_to(p_value, 'UTF8'))
    FROM tidemark.erasure_secret s
$$;

-- What the erased events had that a topic may filter by, for each event of type events_erased that an
-- erasure has appended. An event of this type without a row here is not a notice.
CREATE TABLE tidemark.erasure_notices (
    position   bigint           NOT NULL,
    n          integer          NOT NULL,
    event_type text COLLATE "C" NOT NULL,
    intent     tidemark.intent  NOT NULL,
    tags       bytea[]          NOT NULL,
    PRIMARY KEY (position, n)
);
COMMENT ON TABLE tidemark.erasure_notices IS
    'What topics may filter erased events by: a row for each notice, type, intent and set of tags.';
COMMENT ON COLUMN tidemark.erasure_notices.position IS 'position of the notice, an event of type events_erased';
COMMENT ON COLUMN tidemark.erasure_notices.n IS 'number of the row, from 1';
COMMENT ON COLUMN tidemark.erasure_notices.event_type IS 'type of some erased events';
COMMENT ON COLUMN tidemark.erasure_notices.intent IS 'intent of these events';
COMMENT ON COLUMN tidemark.erasure_notices.tags IS 'keyed hashes of their tags, and of the keys of these';

-- tag_hashes returns keyed hashes of tags and of their keys: topics filter by both.
CREATE FUNCTION tidemark.tag_hashes(p_tags text[]) RETURNS bytea[]
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(DISTINCT h.hash ORDER BY h.hash), '{}') FROM unnest(p_tags) AS t (tag)
    CROSS JOIN LATERAL (VALUES (t.tag), (split_part(t.tag, '=', 1))) AS v (value)
    CROSS JOIN LATERAL (SELECT tidemark.secret_hash('tag', v.value) AS hash OFFSET 0) AS h
$$;

-- notices returns what the events had that notices are about, a row for each type, intent and set of
-- tags. Of the tags it tells those alone that the caller names.
-- +goose StatementBegin
CREATE FUNCTION tidemark.notices(p_positions bigint[], p_tags text[])
    RETURNS TABLE ("position" bigint, event_type text, intent text, tags text[])
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
    WITH asked AS MATERIALIZED (
        SELECT t.tag, tidemark.secret_hash('tag', t.tag) AS hash FROM unnest(p_tags) AS t (tag)
    )
    SELECT n.position, n.event_type, n.intent::text, array(SELECT a.tag FROM asked a WHERE a.hash = ANY (n.tags))
    FROM tidemark.erasure_notices n WHERE n.position = ANY (p_positions) ORDER BY n.position, n.n
$$;
-- +goose StatementEnd

-- erasable returns the strings of 4 characters and more in a document, and the numbers of 7.
-- +goose StatementBegin
CREATE FUNCTION tidemark.erasable(p_document jsonb) RETURNS SETOF text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT DISTINCT v #>> '{}'
    FROM jsonb_path_query(p_document, 'strict $.** ? (@.type() == "string" || @.type() == "number")') AS v
    WHERE length(v #>> '{}') >= CASE jsonb_typeof(v) WHEN 'string' THEN 4 ELSE 7 END
$$;
-- +goose StatementEnd

-- texts also returns the names of fields, and the words of all of them.
-- +goose StatementBegin
CREATE FUNCTION tidemark.texts(p_document jsonb) RETURNS SETOF text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
    WITH whole AS (
        SELECT v AS value FROM tidemark.erasable(p_document) AS v
        UNION
        SELECT k.key FROM jsonb_path_query(p_document, 'strict $.** ? (@.type() == "object")') AS o
            CROSS JOIN LATERAL jsonb_object_keys(o) AS k (key)
    )
    SELECT w.value FROM whole w WHERE length(w.value) >= 4
    UNION
    SELECT word FROM whole w CROSS JOIN LATERAL regexp_split_to_table(w.value, '[^[:alnum:]@._+-]+') AS word
    WHERE length(word) >= 4
$$;
-- +goose StatementEnd

-- is_erased reports whether an erasure has taken an event, or with p_whole all of its payload. An append
-- with the mark of erasures in its metadata does not hide an event from them.
-- +goose StatementBegin
CREATE FUNCTION tidemark.is_erased(p_position bigint, p_metadata jsonb, p_payload jsonb, p_whole boolean)
    RETURNS boolean
    LANGUAGE sql STABLE
    RETURN CASE WHEN p_metadata ->> '$erased' ~ '^[0-9]{1,18}$' THEN (p_payload = '{}' OR NOT p_whole)
        AND EXISTS (SELECT FROM tidemark.erased_events x WHERE x.erasure = (p_metadata ->> '$erased')::bigint
            AND x.position = p_position) ELSE false END;
-- +goose StatementEnd

-- count_erased adds numbers of changed rows, by table, to those of an erasure.
-- +goose StatementBegin
CREATE FUNCTION tidemark.count_erased(p_erasure bigint, p_counts jsonb) RETURNS void
    LANGUAGE sql
BEGIN ATOMIC
    UPDATE tidemark.erasures x SET changed = (
        SELECT jsonb_object_agg(k.key, coalesce((x.changed ->> k.key)::bigint, 0) + k.value::bigint)
        FROM jsonb_each_text(p_counts) k) || (x.changed - array(SELECT jsonb_object_keys(p_counts)))
    WHERE x.id = p_erasure;
END;
-- +goose StatementEnd

-- erase replaces payload and metadata of events of one campaign, and drops their tags, actor and
-- aggregate: place, type, id and times stay. With p_personal, an object of arrays of paths by event
-- type, it takes only these fields from the payloads, and leaves other types alone. What failed
-- campaigns, parked events and logs tell of the events goes too, and so do scheduled appends of the
-- campaign if all of it is erased (p_seqs is NULL: up to p_most events that are left). It appends an
-- event that tells consumers, and returns the erased seqs. It locks the campaign, as an append does.
-- It is the only way to change the journal.
-- +goose StatementBegin
CREATE FUNCTION tidemark.erase(p_erasure bigint, p_key bytea, p_campaign_id text, p_seqs bigint[], p_most integer,
        p_personal jsonb) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    mark CONSTANT jsonb := jsonb_build_object('$erased', p_erasure);
    chosen bigint[];
    erased bigint[] := '{}';
    counts jsonb := '{}';
    n bigint;
    e tidemark.journal;
    left_over jsonb;
    path text;
    carried jsonb := '[]';
BEGIN
    IF NOT EXISTS (SELECT FROM tidemark.erasures x WHERE x.id = p_erasure) THEN
        RAISE EXCEPTION 'there is no erasure %', p_erasure
            USING ERRCODE = 'invalid_parameter_value', HINT = 'erase with tidemark campaign erase or subject erase';
    ELSIF octet_length(p_key) IS DISTINCT FROM 32 THEN
        RAISE EXCEPTION 'the key has % bytes', octet_length(p_key)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use 32 random bytes';
    END IF;
    PERFORM tidemark.lock_untagged(p_campaign_id, 'events_erased');
    PERFORM tidemark.refuse_archived(p_campaign_id, h.metadata) FROM (SELECT j.event_version, j.metadata
        FROM tidemark.journal j WHERE j.campaign_id = p_campaign_id ORDER BY j.seq DESC LIMIT 1) h
    WHERE h.event_version = 0;
    chosen := p_seqs;
    IF chosen IS NULL THEN
        SELECT array_agg(j.seq) INTO chosen FROM (SELECT j.seq FROM tidemark.journal j
            WHERE j.campaign_id = p_campaign_id
                AND NOT tidemark.is_erased(j.position, j.metadata, j.payload, p_personal IS NULL)
                AND j.event_type <> 'events_erased'
                AND (p_personal IS NULL OR p_personal ? j.event_type) ORDER BY j.seq LIMIT p_most) j;
    END IF;
    PERFORM tidemark.begin_change('erase');
    FOR e IN SELECT j.* FROM tidemark.journal j WHERE j.campaign_id = p_campaign_id AND j.seq = ANY (chosen)
        AND NOT tidemark.is_erased(j.position, j.metadata, j.payload, p_personal IS NULL)
        AND (p_personal IS NULL OR p_personal ? j.event_type)
        ORDER BY j.seq
    LOOP
        left_over := '{}';
        IF p_personal IS NOT NULL THEN
            left_over := e.payload;
            FOR path IN SELECT jsonb_array_elements_text(p_personal -> e.event_type) LOOP
                left_over := left_over #- string_to_array(path, '.');
            END LOOP;
        END IF;
        INSERT INTO tidemark.erased_events VALUES (p_erasure, e.position, e.event_id);
        INSERT INTO tidemark.erased_values
        SELECT DISTINCT p_erasure, sha256(p_key || convert_to(t, 'UTF8'))
        FROM tidemark.erasable(jsonb_build_array(e.metadata, e.actor, e.aggregate_id, e.payload,
            (SELECT jsonb_agg(regexp_replace(tag, '^[^=]*=', '')) FROM unnest(e.tags) AS tag))) AS t
        WHERE t NOT IN (e.campaign_id, e.event_id::text, e.event_type)
            AND t NOT IN (SELECT tidemark.erasable(left_over))
        ON CONFLICT DO NOTHING;
        UPDATE tidemark.journal j SET payload = left_over, metadata = mark, tags = NULL, actor = NULL,
            aggregate_type = NULL, aggregate_id = NULL,
            payload_bytes = least(j.payload_bytes, 100 + octet_length(left_over::text))
        WHERE j.campaign_id = e.campaign_id AND j.seq = e.seq;
        erased := erased || e.seq;
        carried := carried || jsonb_build_object('type', e.event_type, 'intent', e.intent, 'tags', e.tags);
        DELETE FROM tidemark.event_tags t WHERE t.tag = ANY (e.tags) AND t.event_type = e.event_type
            AND t.position = e.position;
        GET DIAGNOSTICS n = ROW_COUNT;
        counts := counts || jsonb_build_object('event_tags', coalesce((counts ->> 'event_tags')::bigint, 0) + n);
    END LOOP;
    PERFORM tidemark.end_change();
    IF cardinality(erased) > 0 THEN -- publishers send it, so that consumers can follow
        INSERT INTO tidemark.erasure_notices
        SELECT a.position, row_number() OVER (), c.type, c.intent, c.tags
        FROM tidemark.append_rows(p_campaign_id, jsonb_build_array(jsonb_build_object('type', 'events_erased', 'intent',
            'audit_only', 'payload', jsonb_build_object('erasure', p_erasure, 'seqs', erased))), NULL, true) AS a
        CROSS JOIN (SELECT DISTINCT r.type, r.intent, tidemark.tag_hashes(r.tags) AS tags
            FROM jsonb_to_recordset(carried) AS r (type text, intent tidemark.intent, tags text[])) AS c;
        PERFORM tidemark.log_act(x.actor, 'events_erased', x.reason, '', '', p_campaign_id, 0,
            jsonb_build_object('erasure', p_erasure, 'events', cardinality(erased)), '', 0, '')
        FROM tidemark.erasures x WHERE x.id = p_erasure;
    END IF;

    counts := counts || jsonb_build_object('journal', cardinality(erased));
    PERFORM tidemark.count_erased(p_erasure, counts);
    RETURN erased;
END
$$;
-- +goose StatementEnd

-- erase_traces takes what failed campaigns, parked events and the failure log tell of a campaign, and
-- with p_scheduled its scheduled appends. Callers have fenced the leases before, as workers lock them
-- before the rows of failed campaigns.
-- +goose StatementBegin
CREATE FUNCTION tidemark.erase_traces(p_erasure bigint, p_campaign_id text, p_scheduled boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    counts jsonb := '{}';
    n bigint;
BEGIN
    UPDATE tidemark.deferred d SET error_message = 'erased', error_stack = NULL, fingerprint = NULL
    WHERE d.campaign_id = p_campaign_id AND d.error_message IS NOT NULL;
    GET DIAGNOSTICS n = ROW_COUNT;
    counts := counts || jsonb_build_object('deferred', n);
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
-- +goose StatementEnd

-- erase_keys takes the keys of erased events from the failure log of projections across campaigns: keys
-- may be names. These are keys of failures at the events, keys that an erased value is, and p_subjects.
-- It reads p_most rows after p_after and returns the id of the last, NULL at the end of the log.
-- +goose StatementBegin
CREATE FUNCTION tidemark.erase_keys(p_erasure bigint, p_key bytea, p_subjects text[], p_after bigint, p_most integer)
    RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    last bigint;
    n bigint;
BEGIN
    SELECT max(l.id) INTO last
    FROM (SELECT l.id FROM tidemark.failure_log l WHERE l.id > p_after ORDER BY l.id LIMIT p_most) l;
    UPDATE tidemark.failure_log l SET campaign_id = 'erased', error_stack = NULL, fingerprint = NULL,
        error_message = CASE WHEN l.error_message IS NOT NULL THEN 'erased' END
    FROM tidemark.projections p
    WHERE l.id > p_after AND l.id <= last AND p.scope = 'journal' AND split_part(l.projection, '~', 1) = p.name
        AND l.campaign_id <> 'erased' AND (l.campaign_id = ANY (p_subjects)
            OR EXISTS (SELECT FROM tidemark.erased_events e WHERE e.erasure = p_erasure AND e.position = l.seq)
            OR EXISTS (SELECT FROM tidemark.erased_values v WHERE v.erasure = p_erasure
                AND v.hash = sha256(p_key || convert_to(l.campaign_id, 'UTF8'))));
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM tidemark.count_erased(p_erasure, jsonb_build_object('failure_log', n));
    RETURN last;
END
$$;
-- +goose StatementEnd

-- end_erasure ends an erasure and returns the numbers of changed rows by table. It reads resolutions of
-- projections across campaigns once. They keep the events, and no key.
-- +goose StatementBegin
CREATE FUNCTION tidemark.end_erasure(p_erasure bigint) RETURNS jsonb
    LANGUAGE sql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
    WITH gone AS (
        DELETE FROM tidemark.resolutions r USING tidemark.erased_events e, tidemark.projections p
        WHERE e.erasure = p_erasure AND r.seq = e.position AND p.scope = 'journal' AND r.projection = p.name
            AND r.campaign_id <> 'erased'
        RETURNING r.projection, r.seq, r.actor, r.reason, r.resolved_at
    ), kept AS (
        INSERT INTO tidemark.resolutions (campaign_id, projection, seq, actor, reason, resolved_at)
        SELECT 'erased', g.* FROM gone g ON CONFLICT DO NOTHING
    )
    UPDATE tidemark.erasures x SET ended_at = clock_timestamp() WHERE x.id = p_erasure RETURNING x.changed
$$;
-- +goose StatementEnd

-- import_erased is append_all for exported lines that tell of erasures: erased events, and the notices of
-- these. It refuses them unless they are as an erasure writes them. A notice is published to topics that
-- have events of the kinds that the erased ones still are.
-- +goose StatementBegin
CREATE FUNCTION tidemark.import_erased(p_batches jsonb)
    RETURNS TABLE (campaign_id text, seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
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
-- +goose StatementEnd

REVOKE ALL ON FUNCTION tidemark.erase, tidemark.erase_traces, tidemark.erase_keys, tidemark.end_erasure,
    tidemark.import_erased, tidemark.secret_hash, tidemark.tag_hashes, tidemark.notices FROM PUBLIC;

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP FUNCTION tidemark.import_erased;
DROP FUNCTION tidemark.end_erasure;
DROP FUNCTION tidemark.erase_keys;
DROP FUNCTION tidemark.erase_traces;
DROP FUNCTION tidemark.erase;
DROP FUNCTION tidemark.count_erased;
DROP FUNCTION tidemark.is_erased;
DROP FUNCTION tidemark.texts;
DROP FUNCTION tidemark.erasable;
DROP FUNCTION tidemark.notices;
DROP FUNCTION tidemark.tag_hashes;
DROP TABLE tidemark.erasure_notices;
DROP FUNCTION tidemark.secret_hash;
DROP TABLE tidemark.erasure_secret;
DROP TABLE tidemark.erased_values;
DROP TABLE tidemark.erased_events;
DROP TABLE tidemark.erasures;
DROP SEQUENCE tidemark.erased;
