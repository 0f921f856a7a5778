-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
SET LOCAL client_encoding = 'UTF8'; -- this file has letters beyond ASCII

-- One row stands for one request of operators to erase a campaign or subjects, however often it was
-- interrupted and continued. The subject's key is not kept: it may be a person's name. Only the same
-- request finds the row again, by a keyed hash. Whoever carries it out holds it until held_until, by
-- the database's clock, and each holder has a generation of its own: who has lost it changes nothing.
CREATE TABLE tidemark.erasures (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    request     bytea            NOT NULL CHECK (octet_length(request) = 32),
    campaign_id text COLLATE "C",
    fields      jsonb            NOT NULL DEFAULT '{}',
    personal    jsonb,
    took        jsonb[]          NOT NULL DEFAULT '{}',
    actor       text COLLATE "C" NOT NULL,
    reason      text             NOT NULL,
    began_at    timestamptz      NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz,
    holder      text COLLATE "C" NOT NULL DEFAULT '',
    login       text COLLATE "C" NOT NULL DEFAULT session_user,
    generation  bigint           NOT NULL DEFAULT 1,
    held_until  timestamptz      NOT NULL DEFAULT clock_timestamp(),
    changed     jsonb            NOT NULL DEFAULT '{}',
    abandoned_by text COLLATE "C",
    abandon_reason text
);
COMMENT ON TABLE tidemark.erasures IS 'Erasures of campaigns and subjects. Kept as long as the journal.';
COMMENT ON COLUMN tidemark.erasures.id IS 'number, which erased events have in their metadata';
COMMENT ON COLUMN tidemark.erasures.request IS 'keyed hash of the campaign or the subjects, and of what it takes';
COMMENT ON COLUMN tidemark.erasures.campaign_id IS 'campaign, NULL for subjects';
COMMENT ON COLUMN tidemark.erasures.fields IS 'subject fields of the catalogue that it searches, by event type';
COMMENT ON COLUMN tidemark.erasures.personal IS 'personal fields that it takes, by event type, NULL for whole payloads';
COMMENT ON COLUMN tidemark.erasures.took IS
    'personal fields that calls took before another one continued with more, by event type, oldest first';
COMMENT ON COLUMN tidemark.erasures.actor IS 'operator who began it';
COMMENT ON COLUMN tidemark.erasures.reason IS 'reason of that operator';
COMMENT ON COLUMN tidemark.erasures.began_at IS 'time of the first event';
COMMENT ON COLUMN tidemark.erasures.ended_at IS 'time of the last, NULL while it runs or if it was interrupted';
COMMENT ON COLUMN tidemark.erasures.holder IS 'operator who carries it out, or did last';
COMMENT ON COLUMN tidemark.erasures.login IS 'database login of the holder: no other one makes changes';
COMMENT ON COLUMN tidemark.erasures.generation IS 'grows with each holder; all changes are made under it';
COMMENT ON COLUMN tidemark.erasures.held_until IS 'time from which the same request may take it over';
COMMENT ON COLUMN tidemark.erasures.changed IS 'number of rows that were changed, by table';
COMMENT ON COLUMN tidemark.erasures.abandoned_by IS 'operator who has abandoned what was left of it, NULL if none has';
COMMENT ON COLUMN tidemark.erasures.abandon_reason IS 'reason of that operator';

-- There is one unfinished erasure of a request.
CREATE UNIQUE INDEX erasures_request_idx ON tidemark.erasures (request) WHERE ended_at IS NULL;

-- The secret of the installation, of 366 random bits: the inner and outer block of HMAC-SHA256.
-- Keys of erasures and hashes of subjects are derived from it. Only functions of the owner read it.
CREATE TABLE tidemark.erasure_secret (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    inner_block bytea NOT NULL CHECK (octet_length(inner_block) = 64),
    outer_block bytea NOT NULL CHECK (octet_length(outer_block) = 64)
);
COMMENT ON TABLE tidemark.erasure_secret IS 'Secret from which keys of erasures are derived. For the owner''s functions alone.';
COMMENT ON COLUMN tidemark.erasure_secret.one IS 'there is one row';
COMMENT ON COLUMN tidemark.erasure_secret.inner_block IS 'the secret with the inner padding of HMAC';
COMMENT ON COLUMN tidemark.erasure_secret.outer_block IS 'the secret with the outer padding of HMAC';
INSERT INTO tidemark.erasure_secret (inner_block, outer_block)
SELECT string_agg(set_byte(decode('00', 'hex'), 0, get_byte(r.secret, n) # 54), '' ORDER BY n),
    string_agg(set_byte(decode('00', 'hex'), 0, get_byte(r.secret, n) # 92), '' ORDER BY n)
FROM (SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))
    || decode(repeat('00', 32), 'hex') AS secret OFFSET 0) r CROSS JOIN generate_series(0, 63) n;
-- +goose StatementBegin
DO $$
DECLARE
    grantee text;
BEGIN
    -- Default privileges may give new tables to workers: migrations/roles/roles.sql.
    REVOKE ALL ON tidemark.erasure_secret FROM PUBLIC;
    FOR grantee IN SELECT DISTINCT a.grantee::regrole::text FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
        WHERE c.oid = 'tidemark.erasure_secret'::regclass AND a.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format('REVOKE ALL ON tidemark.erasure_secret FROM %s', grantee);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- Grows when events have been erased. Processes that keep pages of the journal in memory read it every
-- second, and then drop them.
CREATE SEQUENCE tidemark.erased AS bigint MINVALUE 0 START 0 CACHE 1;
SELECT nextval('tidemark.erased'); -- the next call moves last_value
COMMENT ON SEQUENCE tidemark.erased IS 'Grows when events have been erased, so that processes drop pages in memory.';

-- The events of an erasure.
CREATE TABLE tidemark.erased_events (
    erasure  bigint NOT NULL REFERENCES tidemark.erasures,
    position bigint NOT NULL,
    event_id uuid    NOT NULL,
    tags     bytea[] NOT NULL DEFAULT '{}',
    calls    integer NOT NULL DEFAULT 0,
    PRIMARY KEY (erasure, position)
);
CREATE INDEX erased_events_position_idx ON tidemark.erased_events (position);
COMMENT ON TABLE tidemark.erased_events IS 'Events of an erasure.';
COMMENT ON COLUMN tidemark.erased_events.erasure IS 'the erasure';
COMMENT ON COLUMN tidemark.erased_events.position IS 'position of the event';
COMMENT ON COLUMN tidemark.erased_events.event_id IS 'id of the event';
COMMENT ON COLUMN tidemark.erased_events.tags IS 'keyed hashes of the tags that it had, for the notices of later erasures';
COMMENT ON COLUMN tidemark.erased_events.calls IS
    'elements of erasures.took at that time: the next one, if there is one by now, has the personal fields that it lost';

-- Tags and subjects that erased events had, as keyed hashes, so that a later erasure of the subject finds
-- them again: a field may be declared personal later.
CREATE TABLE tidemark.erased_subjects (
    hash        bytea            NOT NULL CHECK (octet_length(hash) = 32),
    position    bigint           NOT NULL,
    campaign_id text COLLATE "C" NOT NULL,
    seq         bigint           NOT NULL,
    event_type  text COLLATE "C" NOT NULL,
    PRIMARY KEY (hash, position)
);
COMMENT ON TABLE tidemark.erased_subjects IS 'Keyed hashes of the tags and subjects of erased events.';
COMMENT ON COLUMN tidemark.erased_subjects.hash IS 'HMAC with the secret of the installation of the SHA-256';
COMMENT ON COLUMN tidemark.erased_subjects.position IS 'position of the event';
COMMENT ON COLUMN tidemark.erased_subjects.campaign_id IS 'its campaign';
COMMENT ON COLUMN tidemark.erased_subjects.seq IS 'its number in the campaign';
COMMENT ON COLUMN tidemark.erased_subjects.event_type IS 'its type';

-- Hashes of the values that were erased, with the key of the erasure, which the certificate has. So they
-- tell nothing without it, and a search finds the values wherever they are left.
CREATE TABLE tidemark.erased_values (
    erasure bigint   NOT NULL REFERENCES tidemark.erasures,
    hash    bytea    NOT NULL,
    words   smallint NOT NULL,
    PRIMARY KEY (erasure, hash)
);
COMMENT ON TABLE tidemark.erased_values IS 'Keyed hashes of the values that an erasure has erased.';
COMMENT ON COLUMN tidemark.erased_values.erasure IS 'the erasure';
COMMENT ON COLUMN tidemark.erased_values.hash IS 'SHA-256 of the erasure''s key and the value: tidemark.spoken';
COMMENT ON COLUMN tidemark.erased_values.words IS 'words of the value, at most 8';

-- derive returns the HMAC-SHA256 of a message by the secret of the installation. Nobody but functions of
-- the owner may call it.
-- +goose StatementBegin
CREATE FUNCTION tidemark.derive(p_use text, p_message bytea) RETURNS bytea
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    s tidemark.erasure_secret;
BEGIN
    SELECT * INTO s FROM tidemark.erasure_secret;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the secret of erasures is missing: tidemark.erasure_secret has no row'
            USING ERRCODE = 'TM018', HINT = 'restore the table from a backup: without it no erased subject is found again';
    END IF;
    RETURN sha256(s.outer_block || sha256(s.inner_block || convert_to(p_use || ':', 'UTF8') || p_message));
END
$$;
-- +goose StatementEnd

-- spoken returns the words of a text in small letters, one space between them. What stands between words
-- is neither a letter nor a digit of ASCII, and no other character but general punctuation. It does not
-- depend on the database's locale: small letters are those of Latin, Greek and Cyrillic.
-- +goose StatementBegin
CREATE FUNCTION tidemark.spoken(p_text text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT btrim(regexp_replace(CASE WHEN octet_length(p_text) = length(p_text) THEN lower(p_text COLLATE "C")
        ELSE translate(lower(p_text COLLATE "C"),
            'ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞĀĂĄĆĈĊČĎĐĒĔĖĘĚĜĞĠĢĤĦĨĪĬĮĲĴĶĹĻĽĿŁŃŅŇŊŌŎŐŒŔŖŘŚŜŞŠŢŤŦŨŪŬŮŰŲŴŶŸŹ'
            'ŻŽͰͲͶͿΆΈΉΊΌΎΏΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩΪΫϏϘϚϜϞϠϢϤϦϨϪϬϮϴϷϹϺϽϾϿЀЁЂЃЄЅІЇЈЉЊЋЌЍЎЏАБВГДЕЖЗИЙКЛМНО'
            'ПРСТУФХЦЧШЩЪЫЬЭЮЯѠѢѤѦѨѪѬѮѰѲѴѶѸѺѼѾҀҊҌҎҐҒҔҖҘҚҜҞҠҢҤҦҨҪҬҮҰҲҴҶҸҺҼҾӀӁӃӅӇӉӋӍӐӒӔӖӘӚӜӞӠӢӤӦӨӪӬӮӰӲӴӶӸ'
            'ӺӼӾԀԂԄԆԈԊԌԎԐԒԔԖԘԚԜԞԠԢԤԦԨԪԬԮḀḂḄḆḈḊḌḎḐḒḔḖḘḚḜḞḠḢḤḦḨḪḬḮḰḲḴḶḸḺḼḾṀṂṄṆṈṊṌṎṐṒṔṖṘṚṜṞṠṢṤṦṨṪṬṮṰṲṴṶṸṺṼ'
            'ṾẀẂẄẆẈẊẌẎẐẒẔẞẠẢẤẦẨẪẬẮẰẲẴẶẸẺẼẾỀỂỄỆỈỊỌỎỐỒỔỖỘỚỜỞỠỢỤỦỨỪỬỮỰỲỴỶỸỺỼỾ',
            'àáâãäåæçèéêëìíîïðñòóôõöøùúûüýþāăąćĉċčďđēĕėęěĝğġģĥħĩīĭįĳĵķĺļľŀłńņňŋōŏőœŕŗřśŝşšţťŧũūŭůűųŵŷÿź'
            'żžͱͳͷϳάέήίόύώαβγδεζηθικλμνξοπρστυφχψωϊϋϗϙϛϝϟϡϣϥϧϩϫϭϯθϸϲϻͻͼͽѐёђѓєѕіїјљњћќѝўџабвгдежзийклмно'
            'прстуфхцчшщъыьэюяѡѣѥѧѩѫѭѯѱѳѵѷѹѻѽѿҁҋҍҏґғҕҗҙқҝҟҡңҥҧҩҫҭүұҳҵҷҹһҽҿӏӂӄӆӈӊӌӎӑӓӕӗәӛӝӟӡӣӥӧөӫӭӯӱӳӵӷӹ'
            'ӻӽӿԁԃԅԇԉԋԍԏԑԓԕԗԙԛԝԟԡԣԥԧԩԫԭԯḁḃḅḇḉḋḍḏḑḓḕḗḙḛḝḟḡḣḥḧḩḫḭḯḱḳḵḷḹḻḽḿṁṃṅṇṉṋṍṏṑṓṕṗṙṛṝṟṡṣṥṧṩṫṭṯṱṳṵṷṹṻṽ'
            'ṿẁẃẅẇẉẋẍẏẑẓẕßạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹỻỽỿ') END,
        E'[\\u0001-\\u002f\\u003a-\\u0040\\u005b-\\u0060\\u007b-\\u00bf\\u2000-\\u206f\\u3000-\\u303f]+', ' ', 'g'), ' ')
$$;
-- +goose StatementEnd

-- secret_hash is derive for texts.
-- +goose StatementBegin
CREATE FUNCTION tidemark.secret_hash(p_use text, p_value text) RETURNS bytea
    LANGUAGE sql STABLE
    RETURN tidemark.derive(p_use, convert_to(p_value, 'UTF8'));
-- +goose StatementEnd

-- request_hash returns what is kept of an act's request, of which p_sum is a hash: a keyed hash, as a request may
-- name a person.
-- +goose StatementBegin
CREATE FUNCTION tidemark.request_hash(p_sum bytea) RETURNS bytea
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT tidemark.derive('act', p_sum)
$$;
-- +goose StatementEnd

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

-- erased_hashes returns the hashes of values for tidemark.erased_values. Of a long one it is that of the
-- first 8 words.
-- +goose StatementBegin
CREATE FUNCTION tidemark.erased_hashes(p_key bytea, p_values text[]) RETURNS TABLE (hash bytea, words smallint)
    LANGUAGE sql STABLE
    SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT DISTINCT sha256(p_key || convert_to(array_to_string(w.words, ' '), 'UTF8')), cardinality(w.words)::smallint
    FROM unnest(p_values) AS v (value)
        CROSS JOIN LATERAL (SELECT (string_to_array(tidemark.spoken(v.value), ' '))[1:8] AS words) w
    WHERE length(array_to_string(w.words, '')) >= 4
$$;
-- +goose StatementEnd

-- is_erased reports whether an erasure has taken all of an event, or with p_personal these fields of its
-- type. A mark that an append has written into its metadata hides no event from erasures.
-- +goose StatementBegin
CREATE FUNCTION tidemark.is_erased(p_position bigint, p_type text, p_personal jsonb) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN EXISTS (SELECT FROM tidemark.erased_events e JOIN tidemark.erasures x ON x.id = e.erasure
        WHERE e.position = p_position AND (x.personal IS NULL
            OR coalesce(coalesce(x.took[e.calls + 1], x.personal) -> p_type @> (p_personal -> p_type), false)));
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

-- merge_paths returns the paths of two objects of arrays of paths by event type; NULL if one is NULL.
-- +goose StatementBegin
CREATE FUNCTION tidemark.merge_paths(p_a jsonb, p_b jsonb) RETURNS jsonb
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
-- +goose StatementEnd

-- begin_erasure puts a request on record, and returns the erasure with its key. If the same request was
-- interrupted, it takes that erasure over, with the fields of both calls. Erased events have the number of their
-- call, so none of them changes. While another holds it, it raises TM017. Without p_new it begins no new one and
-- returns no row. The log of operators has each holder.
-- +goose StatementBegin
CREATE FUNCTION tidemark.begin_erasure(p_campaign_id text, p_subjects text[], p_fields jsonb, p_personal jsonb,
        p_actor text, p_reason text, p_new boolean)
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
-- +goose StatementEnd

-- abandon_erasure takes over an erasure that was interrupted, so that the caller ends it with what is erased so
-- far. Its request may be forgotten. While another holds it, it raises TM017. It returns no row if there is no
-- such erasure, or if it has ended.
-- +goose StatementBegin
CREATE FUNCTION tidemark.abandon_erasure(p_erasure bigint, p_actor text, p_reason text)
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
-- +goose StatementEnd

-- erasure_key returns the key of an erasure that has not ended, so that what a killed call has erased can be
-- searched for. The certificate has the key of one that has ended.
-- +goose StatementBegin
CREATE FUNCTION tidemark.erasure_key(p_erasure bigint) RETURNS TABLE (key bytea, began_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT tidemark.derive('erasure', int8send(x.id)), x.began_at FROM tidemark.erasures x
    WHERE x.id = p_erasure AND x.ended_at IS NULL
$$;
-- +goose StatementEnd

-- hold_erasure has the holder of an erasure hold it for 30 seconds more, and returns it. It raises TM017 if
-- another has taken it over, or if it has ended. All operators can read number and generation, so it asks for
-- the holder's login too. p_campaign_id is what the caller is about to change: an erasure of one campaign
-- changes no other.
-- +goose StatementBegin
CREATE FUNCTION tidemark.hold_erasure(p_erasure bigint, p_generation bigint, p_campaign_id text DEFAULT NULL)
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
-- +goose StatementEnd

-- release_erasure lets the same request take an erasure over at once.
-- +goose StatementBegin
CREATE FUNCTION tidemark.release_erasure(p_erasure bigint, p_generation bigint) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE tidemark.erasures e SET held_until = clock_timestamp()
    WHERE e.id = p_erasure AND e.generation = p_generation AND e.login = session_user AND e.ended_at IS NULL
$$;
-- +goose StatementEnd

-- erased_of returns the events of subjects, or with these tags, that erasures have taken before but not all
-- of, or not p_personal of it. They cannot be found by what they say any more.
-- +goose StatementBegin
CREATE FUNCTION tidemark.erased_of(p_subjects text[], p_personal jsonb)
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
-- +goose StatementEnd

-- field_values returns what a path leads to in a document: of all elements where it leads through an array.
-- It has no SET, so that Postgres can make it a part of the query.
-- +goose StatementBegin
CREATE FUNCTION tidemark.field_values(p_document jsonb, p_path text) RETURNS SETOF jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT p_document #> string_to_array(p_path, '.')
    WHERE jsonb_typeof(p_document #> string_to_array(p_path, '.')) <> 'array'
    UNION ALL
    SELECT v.value FROM jsonb_path_query(p_document, (
        SELECT 'lax $' || string_agg('.' || to_json(s.name)::text || '[*]', '' ORDER BY s.n)
        FROM string_to_table(p_path, '.') WITH ORDINALITY AS s (name, n))::jsonpath) AS v (value)
    WHERE coalesce(jsonb_typeof(p_document #> string_to_array(p_path, '.')), 'array') = 'array';
END;
-- +goose StatementEnd

-- keep_subjects keeps the hashes of the tags of an event and of the subjects that p_paths lead to. Of a
-- sealed subject the key's row has the SHA-256.
-- +goose StatementBegin
CREATE FUNCTION tidemark.keep_subjects(p_event tidemark.journal, p_paths jsonb) RETURNS void
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
-- +goose StatementEnd

-- holds reports whether a text is one of the values, has one after the sign of a tag, or has one of at
-- least 4 characters as words.
CREATE FUNCTION tidemark.holds(p_text text, p_values text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT p_text = ANY (p_values) OR strpos(p_text, '=') > 0 AND substr(p_text, strpos(p_text, '=') + 1) = ANY (p_values)
        OR EXISTS (SELECT FROM unnest(p_values) AS v (value) WHERE length(v.value) >= 4
            AND tidemark.spoken(v.value) <> ''
            AND strpos(' ' || tidemark.spoken(p_text) || ' ', ' ' || tidemark.spoken(v.value) || ' ') > 0)
$$;

-- cut takes a field out of a document: of all elements where the path leads through an array.
-- +goose StatementBegin
CREATE FUNCTION tidemark.cut(p_document jsonb, p_path text[]) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF jsonb_typeof(p_document) = 'array' THEN
        RETURN (SELECT coalesce(jsonb_agg(tidemark.cut(e.value, p_path) ORDER BY e.n), '[]')
            FROM jsonb_array_elements(p_document) WITH ORDINALITY AS e (value, n));
    ELSIF jsonb_typeof(p_document) <> 'object' OR NOT p_document ? p_path[1] THEN
        RETURN p_document;
    ELSIF cardinality(p_path) = 1 THEN
        RETURN p_document - p_path[1];
    END IF;
    RETURN jsonb_set(p_document, p_path[1:1], tidemark.cut(p_document -> p_path[1], p_path[2:]));
END
$$;
-- +goose StatementEnd

-- without takes the texts, numbers and fields out of a document that hold one of the values, or puts
-- p_instead in the place of the texts and numbers.
-- +goose StatementBegin
CREATE FUNCTION tidemark.without(p_document jsonb, p_values text[], p_instead jsonb DEFAULT NULL) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    CASE jsonb_typeof(p_document)
    WHEN 'object' THEN
        RETURN (SELECT coalesce(jsonb_object_agg(f.key, f.value) FILTER (WHERE f.value IS NOT NULL), '{}')
            FROM (SELECT o.key, tidemark.without(o.value, p_values, p_instead) AS value FROM jsonb_each(p_document) AS o
                WHERE NOT tidemark.holds(o.key, p_values)) AS f);
    WHEN 'array' THEN
        RETURN (SELECT coalesce(jsonb_agg(f.value ORDER BY f.n) FILTER (WHERE f.value IS NOT NULL), '[]')
            FROM (SELECT a.n, tidemark.without(a.value, p_values, p_instead) AS value
                FROM jsonb_array_elements(p_document) WITH ORDINALITY AS a (value, n)) AS f);
    WHEN 'string', 'number' THEN
        RETURN CASE WHEN tidemark.holds(p_document #>> '{}', p_values) THEN p_instead ELSE p_document END;
    ELSE
        RETURN p_document;
    END CASE;
END
$$;
-- +goose StatementEnd

-- subject_values returns the subjects, and the values of those that are tags.
CREATE FUNCTION tidemark.subject_values(p_subjects text[]) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(DISTINCT v.value), '{}') FROM unnest(p_subjects) AS s (subject)
    CROSS JOIN LATERAL (VALUES (s.subject), (substr(s.subject, strpos(s.subject, '=') + 1))) AS v (value)
    WHERE v.value <> ''
$$;

-- erased_form returns an event as an erasure leaves it, without its mark. Without paths nothing is left of
-- payload, metadata, tags, actor and aggregate. Otherwise the fields of the paths go from the payload:
-- $actor, $aggregate_id, $tags and $metadata name what is beside it, and $tags.KEY and $metadata.FIELD a
-- part. Beside the payload goes also what holds a value that went, or one of p_values.
-- +goose StatementBegin
CREATE FUNCTION tidemark.erased_form(p_event tidemark.journal, p_paths jsonb, p_values text[]) RETURNS tidemark.journal
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    held text[];
    path text;
    said CONSTANT jsonb := p_event.payload;
BEGIN
    IF p_paths IS NULL THEN
        p_event.payload := '{}';
        p_event.metadata := NULL;
        p_event.tags := NULL;
        p_event.actor := NULL;
        p_event.aggregate_type := NULL;
        p_event.aggregate_id := NULL;
        RETURN p_event;
    END IF;
    FOR path IN SELECT jsonb_array_elements_text(p_paths) LOOP
        CASE split_part(path, '.', 1)
        WHEN '$actor' THEN
            p_event.actor := NULL;
        WHEN '$aggregate_id' THEN
            p_event.aggregate_id := NULL;
        WHEN '$tags' THEN
            p_event.tags := array(SELECT t.tag FROM unnest(p_event.tags) AS t (tag) WHERE path <> '$tags'
                AND split_part(t.tag, '=', 1) <> substr(path, length('$tags.') + 1));
        WHEN '$metadata' THEN
            p_event.metadata := CASE WHEN path <> '$metadata' THEN
                tidemark.cut(p_event.metadata, (string_to_array(path, '.'))[2:]) END;
        ELSE
            p_event.payload := tidemark.cut(p_event.payload, string_to_array(path, '.'));
        END CASE;
    END LOOP;
    held := p_values || array(SELECT tidemark.erasable(said) EXCEPT SELECT tidemark.erasable(p_event.payload));
    IF tidemark.holds(p_event.actor, held) THEN
        p_event.actor := NULL;
    END IF;
    IF tidemark.holds(p_event.aggregate_id, held) THEN
        p_event.aggregate_id := NULL;
    END IF;
    p_event.tags := nullif(array(SELECT t.tag FROM unnest(p_event.tags) WITH ORDINALITY AS t (tag, n)
        WHERE NOT tidemark.holds(t.tag, held) ORDER BY t.n), '{}');
    p_event.metadata := tidemark.without(p_event.metadata, held);
    RETURN p_event;
END
$$;
-- +goose StatementEnd

-- event_texts returns what an event says, in one document.
CREATE FUNCTION tidemark.event_texts(p_event tidemark.journal) RETURNS jsonb
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_array(p_event.metadata, p_event.actor, p_event.aggregate_id, p_event.payload,
        (SELECT jsonb_agg(regexp_replace(tag, '^[^=]*=', '')) FROM unnest(p_event.tags) AS tag))
$$;

-- tells reports whether an event in the journal, as it is by now, has each word of a text.
CREATE FUNCTION tidemark.tells(p_position bigint, p_text text) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM tidemark.journal j WHERE j.position = p_position
        AND string_to_array(tidemark.spoken(p_text), ' ')
            <@ string_to_array(tidemark.spoken(tidemark.event_texts(j)::text), ' '))
$$;

-- erase replaces payload and metadata of events of one campaign, and drops their tags, actor and
-- aggregate: place, type, id and times stay. If the erasure is of personal fields, it takes only these,
-- and beside the payload what tells the subject: erased_form. It leaves other types alone. If p_seqs is
-- NULL, it takes up to p_most events that are left. It appends an event that tells consumers, and returns
-- the erased seqs. It locks the campaign, as an append does. It is the only way to change the journal.
-- +goose StatementBegin
CREATE FUNCTION tidemark.erase(p_erasure bigint, p_generation bigint, p_campaign_id text, p_seqs bigint[],
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
    IF cardinality(erased) > 0 THEN -- publishers send it, so that consumers can follow
        INSERT INTO tidemark.erasure_notices
        SELECT a.position, row_number() OVER (), c.type, c.intent, c.tags
        FROM tidemark.append_rows(p_campaign_id, jsonb_build_array(jsonb_build_object('type', 'events_erased', 'intent',
            'audit_only', 'payload', jsonb_build_object('erasure', p_erasure, 'seqs', erased))), NULL, true) AS a
        CROSS JOIN (SELECT DISTINCT r.type, r.intent, array(SELECT decode(t, 'hex') FROM unnest(r.tags) AS t) AS tags
            FROM jsonb_to_recordset(carried) AS r (type text, intent tidemark.intent, tags text[])) AS c;
        PERFORM tidemark.log_act(x.actor, 'events_erased', x.reason, '', '', p_campaign_id, 0,
            jsonb_build_object('erasure', p_erasure, 'events', cardinality(erased)), '', 0, '');
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
CREATE FUNCTION tidemark.erase_traces(p_erasure bigint, p_generation bigint, p_campaign_id text, p_scheduled boolean)
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    counts jsonb := '{}';
    n bigint;
BEGIN
    PERFORM tidemark.hold_erasure(p_erasure, p_generation, p_campaign_id);
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

-- erase_scheduled deletes or changes the scheduled appends about the subjects, or about p_campaign_id, in
-- all campaigns. Without p_personal it deletes those that have an event of a subject, by its tags or by the
-- fields p_fields, or that hold a subject in a text or the name of a timer. With p_personal it takes these
-- fields from the events of the subjects. If a subject field is one of them, it then deletes those that still
-- hold a subject. It reads p_most rows after p_after and returns the id of the last, NULL at the end, and
-- the number of rows. Without an erasure it only counts.
-- +goose StatementBegin
CREATE FUNCTION tidemark.erase_scheduled(p_erasure bigint, p_generation bigint, p_campaign_id text, p_subjects text[],
        p_fields jsonb, p_personal jsonb, p_after bigint, p_most integer, OUT last bigint, OUT changed bigint)
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
-- +goose StatementEnd

-- erase_keys takes the keys of erased events from the failure log of projections across campaigns: keys
-- may be names. These are keys of failures at the events, keys that an erased value is, and p_subjects.
-- It reads p_most rows after p_after and returns the id of the last, NULL at the end of the log.
-- +goose StatementBegin
CREATE FUNCTION tidemark.erase_keys(p_erasure bigint, p_generation bigint, p_subjects text[], p_after bigint,
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
-- +goose StatementEnd

-- erase_items takes the keys of subjects and of erased events from the items and requests of operations. It
-- reads p_most operations after p_after and returns the id of the last, NULL at the end.
-- +goose StatementBegin
CREATE FUNCTION tidemark.erase_items(p_erasure bigint, p_generation bigint, p_subjects text[], p_after bigint,
        p_most integer) RETURNS bigint
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
-- +goose StatementEnd

-- forget_statistics has the planner forget what it knows of values that are gone. ANALYZE leaves what it
-- knows of a table without rows, so such a table has one meanwhile. The lock holds up nothing but a vacuum.
-- +goose StatementBegin
CREATE FUNCTION tidemark.forget_statistics() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET lock_timeout = '10s'
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO tidemark.event_tags SELECT '', '', 0 WHERE NOT EXISTS (SELECT FROM tidemark.event_tags);
    INSERT INTO tidemark.scheduled (id, campaign_id, due_at, attempt_at, events) OVERRIDING SYSTEM VALUE
    SELECT 0, '', 'infinity', 'infinity', '[]' WHERE NOT EXISTS (SELECT FROM tidemark.scheduled);
    INSERT INTO tidemark.deferred (campaign_id, projection, consumer_group, next_seq, status)
    SELECT '', '', '', 0, 'dead' WHERE NOT EXISTS (SELECT FROM tidemark.deferred);
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
    ANALYZE tidemark.journal, tidemark.event_tags, tidemark.scheduled, tidemark.deferred, tidemark.failure_log,
        tidemark.parked, tidemark.readers, tidemark.resolutions, tidemark.operations, tidemark.operation_items;
    PERFORM tidemark.begin_change('erase');
    DELETE FROM tidemark.event_tags WHERE tag = '' AND event_type = '' AND position = 0;
    PERFORM tidemark.end_change();
    DELETE FROM tidemark.scheduled WHERE id = 0;
    DELETE FROM tidemark.deferred WHERE campaign_id = '' AND projection = '';
    DELETE FROM tidemark.failure_log WHERE id = 0;
    DELETE FROM tidemark.parked WHERE topic = '' AND publisher = '' AND campaign_id = '';
    DELETE FROM tidemark.readers WHERE topic = '' AND publisher = '';
    DELETE FROM tidemark.resolutions WHERE campaign_id = '' AND projection = '';
    DELETE FROM tidemark.operations WHERE id = 0; -- with its item
END
$$;
-- +goose StatementEnd

-- end_erasure ends an erasure and returns the numbers of changed rows by table. It reads resolutions of
-- projections across campaigns once. They keep the events, and no key but those that the event still tells: with
-- several keys, nothing else says which was resolved. Errors of publishers go.
-- +goose StatementBegin
CREATE FUNCTION tidemark.end_erasure(p_erasure bigint, p_generation bigint) RETURNS jsonb
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
-- +goose StatementEnd

-- import_erased is append_all for exported lines that tell of erasures: erased events, and the notices of
-- these. It refuses them unless they are as an erasure writes them. A notice is published to topics that
-- have events of the kinds that the erased ones still are.
-- +goose StatementBegin
CREATE FUNCTION tidemark.import_erased(p_batches jsonb)
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
-- +goose StatementEnd

REVOKE ALL ON FUNCTION tidemark.derive, tidemark.secret_hash, tidemark.request_hash, tidemark.tag_hashes, tidemark.notices,
    tidemark.begin_erasure, tidemark.abandon_erasure, tidemark.erasure_key, tidemark.hold_erasure,
    tidemark.release_erasure, tidemark.erased_of, tidemark.erase, tidemark.erase_traces, tidemark.erase_scheduled,
    tidemark.erase_keys, tidemark.erase_items, tidemark.forget_statistics, tidemark.end_erasure,
    tidemark.import_erased FROM PUBLIC;

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP FUNCTION tidemark.import_erased;
DROP FUNCTION tidemark.end_erasure;
DROP FUNCTION tidemark.forget_statistics;
DROP FUNCTION tidemark.erase_items;
DROP FUNCTION tidemark.erase_keys;
DROP FUNCTION tidemark.erase_scheduled;
DROP FUNCTION tidemark.erase_traces;
DROP FUNCTION tidemark.erase;
DROP FUNCTION tidemark.tells;
DROP FUNCTION tidemark.event_texts;
DROP FUNCTION tidemark.erased_form;
DROP FUNCTION tidemark.subject_values;
DROP FUNCTION tidemark.without;
DROP FUNCTION tidemark.cut;
DROP FUNCTION tidemark.holds;
DROP FUNCTION tidemark.keep_subjects;
DROP FUNCTION tidemark.field_values;
DROP FUNCTION tidemark.erased_of;
DROP FUNCTION tidemark.release_erasure;
DROP FUNCTION tidemark.hold_erasure;
DROP FUNCTION tidemark.erasure_key;
DROP FUNCTION tidemark.abandon_erasure;
DROP FUNCTION tidemark.begin_erasure;
DROP FUNCTION tidemark.merge_paths;
DROP FUNCTION tidemark.count_erased;
DROP FUNCTION tidemark.is_erased;
DROP FUNCTION tidemark.erased_hashes;
DROP FUNCTION tidemark.erasable;
DROP FUNCTION tidemark.notices;
DROP FUNCTION tidemark.tag_hashes;
DROP TABLE tidemark.erasure_notices;
DROP FUNCTION tidemark.request_hash;
DROP FUNCTION tidemark.secret_hash;
DROP FUNCTION tidemark.spoken;
DROP FUNCTION tidemark.derive;
DROP TABLE tidemark.erased_values;
DROP TABLE tidemark.erased_subjects;
DROP TABLE tidemark.erased_events;
DROP TABLE tidemark.erasures;
DROP TABLE tidemark.erasure_secret;
DROP SEQUENCE tidemark.erased;
