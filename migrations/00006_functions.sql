-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
SET LOCAL client_encoding = 'UTF8';

-- Code generated from migrations/functions/*.sql by "go generate ./migrations". DO NOT EDIT.

-- functions/event_checks.sql
-- +goose StatementBegin
-- What an event must be, and the limits of events and calls.

-- apply_limits replaces append_limits, a constant that is inlined into plans: reading the row of limits would
-- cost each append 10 µs. Only the owner of append_limits can replace it.
CREATE OR REPLACE FUNCTION tidemark.apply_limits() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    l tidemark.limits;
BEGIN
    SELECT * INTO STRICT l FROM tidemark.limits;
    EXECUTE format('CREATE OR REPLACE FUNCTION tidemark.append_limits() RETURNS integer[] LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN %L::integer[]',
        ARRAY[l.campaign_id_bytes, l.events_per_call, l.payload_bytes, l.metadata_bytes, l.tags, l.tag_bytes,
            l.payload_depth,
            l.campaigns_per_transaction, least(256, l.payload_bytes, l.metadata_bytes, 2 * l.payload_depth,
                4 * l.tags, l.tag_bytes)]);
    RETURN NULL;
EXCEPTION WHEN no_data_found THEN
    RAISE EXCEPTION 'tidemark.limits has one row: % is refused', TG_OP USING ERRCODE = 'TM009', HINT = 'UPDATE the row';
END
$$;
CREATE OR REPLACE TRIGGER limits_apply AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON tidemark.limits
    FOR EACH STATEMENT EXECUTE FUNCTION tidemark.apply_limits();
UPDATE tidemark.limits SET only_row = true; -- creates append_limits

-- nesting returns the jsonpath that finds objects and arrays nested deeper than p_depth, empty ones
-- included.
CREATE OR REPLACE FUNCTION tidemark.nesting(p_depth integer) RETURNS jsonpath
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ('strict $.**{' || p_depth || '} ? (@.type() == "object" || @.type() == "array")')::jsonpath;

-- printed_bytes returns the length of a document as Postgres prints it, or NULL if it cannot be
-- printed: 1e131071 takes 12 bytes in jsonb and 131,072 as text. Small documents can always be
-- printed.
CREATE OR REPLACE FUNCTION tidemark.printed_bytes(p_document jsonb) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN octet_length(p_document::text);
EXCEPTION WHEN program_limit_exceeded OR internal_error OR data_corrupted THEN
    RETURN NULL;
END
$$;

-- readable reports whether Postgres can print an event's payload and metadata for a reader.
CREATE OR REPLACE FUNCTION tidemark.readable(p_payload jsonb, p_metadata jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN tidemark.printed_bytes(p_payload) IS NOT NULL
        AND (p_metadata IS NULL OR tidemark.printed_bytes(p_metadata) IS NOT NULL);

-- types_fit reports whether an event certainly has only fields that append knows, each of its type. It does not
-- know leap years, nor every form of a UUID: false means that misfit must look.
CREATE OR REPLACE FUNCTION tidemark.types_fit(p_event jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN jsonb_typeof(p_event) = 'object'
        AND p_event - '{type,payload,metadata,id,version,intent,aggregate_type,aggregate_id,actor,tags,occurred_at}'::text[] = '{}'
        AND coalesce(jsonb_typeof(p_event -> 'type') = 'string', true)
        AND coalesce(p_event ->> 'version' ~ '^[1-9][0-9]{0,8}$'
            AND jsonb_typeof(p_event -> 'version') = 'number', true)
        AND coalesce(p_event ->> 'intent' IN ('projection_and_replay', 'replay_only', 'audit_only'), true)
        AND coalesce(jsonb_typeof(p_event -> 'aggregate_type') IN ('string', 'null'), true)
        AND coalesce(jsonb_typeof(p_event -> 'aggregate_id') IN ('string', 'null'), true)
        AND coalesce(jsonb_typeof(p_event -> 'actor') IN ('string', 'null'), true)
        AND coalesce(p_event ->> 'id' ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$', true)
        AND coalesce(p_event ->> 'occurred_at' ~ ('^[12][0-9]{3}-'
            || '((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)[Tt ]'
            || '([01][0-9]|2[0-3])(:[0-5][0-9]){2}([.][0-9]{1,9})?([Zz]|[-+](0[0-9]|1[0-4]):[0-5][0-9])$'), true)
        AND (p_event ->> 'tags' IS NULL OR jsonb_typeof(p_event -> 'tags') = 'array'
            AND NOT jsonb_path_exists(p_event -> 'tags', 'strict $[*] ? (@.type() != "string" || @ == "")'));

-- fits_apart is types_fit as a call of its own. Inlined, its parts would be set up for each append, used or not.
CREATE OR REPLACE FUNCTION tidemark.fits_apart(p_event jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN tidemark.types_fit(p_event);
END
$$;

-- event_within reports whether an event whose types fit is certainly within all limits and has no reserved name.
-- It judges mostly by length: a short event is neither deep nor has long fields, and a number that expands is long.
-- false means that check_event must look. Callers use it in expressions, which are cheaper than queries.
CREATE OR REPLACE FUNCTION tidemark.event_within(p_event jsonb) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN coalesce(p_event ->> 'type' NOT IN ('', 'events_erased')
        AND NOT coalesce(p_event -> 'metadata' ?| '{$erased,$archived}', false)
        AND coalesce(jsonb_typeof(p_event -> 'payload') = 'object', true)
            AND coalesce(jsonb_typeof(p_event -> 'metadata') = 'object', true)
        AND pg_column_size(p_event) < 65536
        AND (octet_length(p_event::text) <= (tidemark.append_limits())[9]
            OR octet_length((p_event - '{payload,metadata}'::text[])::text) <= (tidemark.append_limits())[9]
                AND octet_length((p_event -> 'payload')::text) <= (tidemark.append_limits())[3]
                AND coalesce(octet_length((p_event -> 'metadata')::text) <= (tidemark.append_limits())[4], true)
                AND NOT jsonb_path_exists(p_event, tidemark.nesting((tidemark.append_limits())[7] + 1))),
                    false);

-- event_fits reports whether the types of an event certainly fit, and event_within.
CREATE OR REPLACE FUNCTION tidemark.event_fits(p_event jsonb) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN coalesce(jsonb_typeof(p_event) = 'object' AND (jsonb_typeof(p_event -> 'type') = 'string'
        AND p_event - '{type,payload,metadata}'::text[] = '{}' OR tidemark.fits_apart(p_event)), false)
        AND tidemark.event_within(p_event);

-- misfit returns the first field that is unknown or of a wrong type, and what is wrong with it, or NULL. No
-- setting of the session changes how it reads a value.
CREATE OR REPLACE FUNCTION tidemark.misfit(p_event jsonb) RETURNS text[]
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    field text := 'event';
    kind text := coalesce(jsonb_typeof(p_event), 'null');
    at timestamptz;
BEGIN
    IF kind <> 'object' THEN
        RETURN ARRAY[field, format('is a JSON %s, it must be an object', kind)];
    END IF;
    FOR field IN SELECT left(min(k), 64) FROM jsonb_object_keys(p_event -
        '{type,payload,metadata,id,version,intent,aggregate_type,aggregate_id,actor,tags,occurred_at}'::text[]) AS k
    LOOP
        EXIT WHEN field IS NULL;
        RETURN ARRAY[field, 'is no field of an event: known are type, id, version, intent, aggregate_type, '
            || 'aggregate_id, actor, tags, payload, metadata, occurred_at'];
    END LOOP;
    FOREACH field IN ARRAY '{type,intent,aggregate_type,aggregate_id,actor,id,occurred_at}'::text[] LOOP
        kind := coalesce(jsonb_typeof(p_event -> field), 'null');
        IF kind NOT IN ('string', 'null') THEN
            RETURN ARRAY[field, format('is a JSON %s, it must be a string', kind)];
        END IF;
    END LOOP;
    IF p_event ->> 'intent' NOT IN ('projection_and_replay', 'replay_only', 'audit_only') THEN
        RETURN ARRAY['intent', format('is %L, known are projection_and_replay, replay_only, audit_only',
            left(p_event ->> 'intent', 64))];
    END IF;
    kind := coalesce(jsonb_typeof(p_event -> 'version'), 'null');
    IF kind NOT IN ('number', 'null') THEN
        RETURN ARRAY['version', format('is a JSON %s, it must be a number', kind)];
    ELSIF (p_event ->> 'version')::numeric < 1 THEN
        RETURN ARRAY['version', format('is %s, versions start at 1', left(p_event ->> 'version', 64))];
    ELSIF (p_event ->> 'version')::numeric > 2147483647 OR (p_event ->> 'version')::numeric % 1 <> 0 THEN
        RETURN ARRAY['version', format('is %s, it must be an integer up to 2147483647',
            left(p_event ->> 'version', 64))];
    END IF;
    kind := coalesce(jsonb_typeof(p_event -> 'tags'), 'null');
    IF kind NOT IN ('array', 'null') OR kind = 'array'
        AND jsonb_path_exists(p_event, 'lax $.tags[*].type() ? (@ != "string")') THEN
        RETURN ARRAY['tags', 'must be an array of strings'];
    ELSIF kind = 'array' AND p_event -> 'tags' ? '' THEN
        RETURN ARRAY['tags', 'hold one that is empty'];
    END IF;
    field := 'id';
    PERFORM (p_event ->> 'id')::uuid;
    field := 'occurred_at';
    IF p_event ->> field !~ '^[0-9]{4}(-[0-9]{2}){2}[Tt ][0-9]{2}(:[0-9]{2}){2}([.][0-9]+)?([Zz]|[-+][0-9]{2}:[0-9]{2})$'
        OR p_event ->> field ~ '^.{11}24' THEN
        RAISE invalid_datetime_format;
    END IF;
    at := (p_event ->> field)::timestamptz;
    IF at < '0001-01-01 00:00Z' OR at >= '10000-01-01 00:00Z' THEN
        RETURN ARRAY[field, format('is %s, it must be in the years 1 to 9999', p_event ->> field)];
    END IF;
    RETURN NULL;
EXCEPTION
    WHEN invalid_text_representation THEN
        RETURN ARRAY[field, format('is %L, it must be a UUID', left(p_event ->> field, 64))];
    WHEN invalid_datetime_format OR datetime_field_overflow OR invalid_time_zone_displacement_value THEN
        RETURN ARRAY[field, format('is %L, it must be a time of RFC 3339 with an offset, e.g. 2026-03-01T12:00:00Z',
            left(p_event ->> field, 64))];
END
$$;

-- refuse_event raises TM004 for one event.
CREATE OR REPLACE FUNCTION tidemark.refuse_event(p_campaign_id text, p_ord bigint, p_event jsonb, p_field text,
        p_reason text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    type CONSTANT text := CASE jsonb_typeof(p_event -> 'type') WHEN 'string' THEN p_event ->> 'type' END;
BEGIN
    RAISE EXCEPTION 'event % (%) of campaign %: % %', p_ord - 1, coalesce(left(type, 64), 'no type'),
        left(p_campaign_id, 64), p_field, p_reason
        USING ERRCODE = 'TM004', DETAIL = jsonb_build_object('campaign', left(p_campaign_id, 256), 'index', p_ord - 1,
            'type', left(type, 256), 'field', p_field, 'reason', p_reason)::text;
END
$$;

-- check_types raises TM004 for the first of the events that has a field of a wrong type, or an unknown one.
CREATE OR REPLACE FUNCTION tidemark.check_types(p_campaign_id text, p_events jsonb) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF jsonb_array_length(p_events) = 1 AND tidemark.types_fit(p_events -> 0) THEN -- without a query
        RETURN true;
    END IF;
    PERFORM tidemark.refuse_event(p_campaign_id, m.ord, m.event, m.wrong[1], m.wrong[2])
    FROM (
        SELECT e.ord, e.event, tidemark.misfit(e.event) AS wrong
        FROM jsonb_array_elements(p_events) WITH ORDINALITY AS e (event, ord)
        WHERE tidemark.types_fit(e.event) IS NOT true OFFSET 0
    ) AS m WHERE m.wrong IS NOT NULL;
    RETURN true;
END
$$;

-- check_event checks an event that event_fits or event_within did not accept. It raises the first violation, or
-- returns true. With p_reserved it accepts the names that are reserved for erasures and archives.
CREATE OR REPLACE FUNCTION tidemark.check_event(p_campaign_id text, p_ord bigint, p_event jsonb,
    p_reserved boolean DEFAULT false) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    field text;
    reason text;
    limits CONSTANT integer[] := tidemark.append_limits();
    wrong CONSTANT text[] := tidemark.misfit(p_event);
    type CONSTANT text := p_event ->> 'type';
    document jsonb;
    most integer;
    bytes integer;
    tags CONSTANT jsonb := nullif(p_event -> 'tags', 'null');
BEGIN
    IF wrong IS NOT NULL THEN
        field := wrong[1]; reason := wrong[2];
    ELSIF type IS NULL OR type = '' THEN
        field := 'type'; reason := 'is missing: name what happened, e.g. "order_placed"';
    ELSIF octet_length(type) > 256 THEN
        field := 'type'; reason := format('has %s bytes, the limit is 256', octet_length(type));
    ELSIF type = 'events_erased' AND NOT p_reserved THEN
        field := 'type'; reason :=
            'is events_erased, which is reserved for the notices of erasures: give the event another type';
    ELSIF p_event -> 'metadata' ?| '{$erased,$archived}' AND NOT p_reserved THEN
        field := 'metadata'; reason := format('has the key %s, which is reserved for erasures and archives: rename it',
            CASE WHEN p_event -> 'metadata' ? '$erased' THEN '$erased' ELSE '$archived' END);
    END IF;
    FOREACH field IN ARRAY CASE WHEN reason IS NULL THEN '{payload,metadata}'::text[] ELSE ARRAY[field] END LOOP
        EXIT WHEN reason IS NOT NULL;
        document := nullif(p_event -> field, 'null');
        most := CASE field WHEN 'payload' THEN limits[3] ELSE limits[4] END;
        CONTINUE WHEN document IS NULL;
        IF jsonb_typeof(document) <> 'object' THEN
            reason := format('is a JSON %s, it must be an object', jsonb_typeof(document));
        ELSIF jsonb_path_exists(document, tidemark.nesting(limits[7])) THEN
            reason := format('is nested deeper than %s levels (payload_depth of tidemark.limits)', limits[7]);
        ELSE
            bytes := CASE WHEN pg_column_size(document) < 65536 THEN octet_length(document::text)
                ELSE tidemark.printed_bytes(document) END;
            IF bytes > most OR bytes IS NULL THEN
                reason := format('has %s bytes, the limit is %s (%s_bytes of tidemark.limits): store the bulk elsewhere and append a reference',
                    coalesce(bytes::text, 'over 1073741824'), most, field);
            END IF;
        END IF;
        EXIT WHEN reason IS NOT NULL;
    END LOOP;
    IF reason IS NOT NULL THEN
        NULL;
    ELSIF jsonb_array_length(tags) > limits[5] THEN
        field := 'tags'; reason := format('are %s, the limit is %s (tags of tidemark.limits)',
            jsonb_array_length(tags), limits[5]);
    ELSIF tags IS NOT NULL AND EXISTS (SELECT FROM jsonb_array_elements_text(tags) AS t (tag)
        WHERE octet_length(tag) > limits[6]) THEN
        field := 'tags'; reason := format('hold one longer than %s bytes (tag_bytes of tidemark.limits)', limits[6]);
    ELSIF greatest(octet_length(p_event ->> 'aggregate_type'), octet_length(p_event ->> 'aggregate_id'),
        octet_length(p_event ->> 'actor')) > 256 THEN
        field := 'aggregate_type, aggregate_id, actor'; reason := 'are longer than 256 bytes each';
    ELSE
        RETURN true;
    END IF;
    PERFORM tidemark.refuse_event(p_campaign_id, p_ord, p_event, field, reason);
END
$$;

-- parsed_json casts text to jsonb. A document too deep for Postgres' own parser (54001) raises
-- TM004 instead.
CREATE OR REPLACE FUNCTION tidemark.parsed_json(p_document text) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN p_document::jsonb;
EXCEPTION WHEN statement_too_complex THEN
    RAISE EXCEPTION 'append: the JSON is nested deeper than Postgres can follow, the limit is % levels (payload_depth of tidemark.limits)', (tidemark.append_limits())[7]
        USING ERRCODE = 'TM004';
END
$$;
-- +goose StatementEnd

-- functions/locks.sql
-- +goose StatementBegin
-- Advisory locks of appends and conditions.
--
-- Advisory lock keys share one space with the application's own. Tidemark's keys carry a namespace
-- in the high 16 bits: 0x7D01 writer floor, 0x7D02 campaign, 0x7D03 registry, 0x7D04 bucket of
-- campaigns, 0x7D05 pruner, 0x7D06 bucket of event types, 0x7D07 tag, 0x7D08 bucket of tags, 0x7D09
-- archives and the beginning of an erasure, 0x7D0A lane of the manifest of archives. The low 48 bits are the
-- floor's position, zero, a lane, or a hash (its low bits for a bucket).

-- lock_key returns the key of an advisory lock.
CREATE OR REPLACE FUNCTION tidemark.lock_key(namespace integer, value bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (namespace::bigint << 48) | (value & 281474976710655);

-- lock_campaign locks the numbering of one campaign until the transaction ends. Callers use it in
-- expressions, which are cheaper than queries. The lock function returns void, which is not NULL,
-- so the result is true.
CREATE OR REPLACE FUNCTION tidemark.lock_campaign(p_campaign_id text) RETURNS boolean
    LANGUAGE sql
    RETURN pg_advisory_xact_lock(tidemark.lock_key(32002, hashtextextended(p_campaign_id, 0))) IS NOT NULL;

-- count_campaigns returns how many campaigns this transaction has locked. It raises TM011 if these
-- and p_campaign_ids together exceed the limit. It reads the whole lock table, so callers use it
-- only near the limit. It then stores the true count in the setting tidemark.floor.
CREATE OR REPLACE FUNCTION tidemark.count_campaigns(p_campaign_ids text[]) RETURNS integer
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    most CONSTANT integer := (tidemark.append_limits())[8];
    held integer;
    wanted integer;
BEGIN
    SELECT count(*) FILTER (WHERE k.held), count(DISTINCT k.key) INTO held, wanted FROM (
        SELECT true AS held, (l.classid::bigint << 32) | l.objid::bigint AS key
        FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory' AND l.objsubid = 1
            AND (l.classid::bigint >> 16) = 32002
        UNION ALL SELECT false, tidemark.lock_key(32002, hashtextextended(c.id, 0))
            FROM unnest(p_campaign_ids) AS c (id)
    ) AS k;
    IF wanted > most THEN
        RAISE EXCEPTION 'the transaction appends to more than % campaigns (campaigns_per_transaction of tidemark.limits)', most
            USING ERRCODE = 'TM011', HINT = 'commit, and append to further campaigns in another transaction',
                DETAIL = jsonb_build_object('campaigns', wanted, 'limit', most)::text;
    END IF;
    PERFORM set_config('tidemark.floor', ((held::bigint << 48) | coalesce(nullif(current_setting('tidemark.floor',
        true), '')::bigint & 281474976710655,
        pg_sequence_last_value('tidemark.journal_position'), 0))::text, true);
    RETURN held;
END
$$;

-- lock_campaigns locks the numbering of campaigns until the transaction ends. Each campaign has its
-- own lock, taken in the order of the keys, so it waits for no other campaign.
CREATE OR REPLACE FUNCTION tidemark.lock_campaigns(p_campaign_ids text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    counted CONSTANT bigint := coalesce(nullif(current_setting('tidemark.floor', true), '')::bigint >> 48, 0);
BEGIN
    IF counted NOT BETWEEN 0 AND (tidemark.append_limits())[8] - cardinality(p_campaign_ids) THEN
        PERFORM tidemark.count_campaigns(p_campaign_ids);
    END IF;
    PERFORM pg_advisory_xact_lock(key)
    FROM (SELECT DISTINCT tidemark.lock_key(32002, hashtextextended(id, 0)) AS key
        FROM unnest(p_campaign_ids) AS c (id) ORDER BY 1) AS k;
END
$$;

-- type_key returns the key of the bucket of a type. Conditions lock such keys, and those of tags
-- (docs/adr/0008), until the transaction ends. An append takes shared locks on the buckets of its
-- event types and on each tag, alone and combined with the type. A condition takes the same keys
-- exclusively. The key of a tag alone has a NULL type.
CREATE OR REPLACE FUNCTION tidemark.type_key(p_type text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN tidemark.lock_key(32006, 0) | (hashtextextended(p_type, 0) & 63);

-- tag_key returns the key of a tag, alone or combined with a type: see type_key.
CREATE OR REPLACE FUNCTION tidemark.tag_key(p_tag text, p_type text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN tidemark.lock_key(32007, hashtextextended(p_tag, coalesce(hashtextextended(p_type, 0), 0)));

-- touched_types returns the keys of types that events touch. For more than 256 events it returns all 64
-- buckets without reading the types. A single event, the usual case, is handled by expressions alone,
-- which cost a tenth of a query.
CREATE OR REPLACE FUNCTION tidemark.touched_types(p_events jsonb) RETURNS bigint[]
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF jsonb_array_length(p_events) = 1 THEN
        RETURN ARRAY[tidemark.type_key(p_events -> 0 ->> 'type')];
    ELSIF jsonb_array_length(p_events) > 256 THEN
        RETURN array(SELECT tidemark.lock_key(32006, bucket) FROM generate_series(0, 63) AS bucket);
    END IF;
    RETURN array(SELECT DISTINCT tidemark.type_key(e.event ->> 'type')
        FROM jsonb_array_elements(p_events) AS e (event));
END
$$;

-- touched_tags returns the keys of tags that events touch: see touched_types.
CREATE OR REPLACE FUNCTION tidemark.touched_tags(p_events jsonb) RETURNS bigint[]
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    one CONSTANT jsonb := p_events -> 0;
    keys bigint[] := '{}';
BEGIN
    IF jsonb_array_length(p_events) = 1 AND jsonb_typeof(one -> 'tags') = 'array' THEN
        FOR n IN 0 .. jsonb_array_length(one -> 'tags') - 1 LOOP
            keys := keys || tidemark.tag_key(one -> 'tags' ->> n, NULL) || tidemark.tag_key(one -> 'tags' ->> n,
                one ->> 'type');
        END LOOP;
    ELSIF jsonb_path_exists(p_events, '$[*].tags[*]') THEN
        keys := array(
            SELECT DISTINCT tidemark.tag_key(t.tag, k.event_type)
            FROM jsonb_array_elements(p_events) AS e (event)
            CROSS JOIN LATERAL jsonb_array_elements_text(CASE jsonb_typeof(e.event -> 'tags')
                WHEN 'array' THEN e.event -> 'tags' ELSE '[]' END) AS t (tag)
            CROSS JOIN LATERAL (VALUES (NULL), (e.event ->> 'type')) AS k (event_type));
    END IF;
    RETURN keys;
END
$$;

-- lock_exclusively locks keys, then campaigns. Keys are locked in ascending order, and of equal
-- keys the exclusive lock comes first: upgrading a shared lock can deadlock. Other appends queue
-- behind a waiting exclusive request, so each wait ends after 300 ms. Then the call gives back all
-- its locks, lets the others go on, and retries for 10 s or for the caller's lock_timeout.
CREATE OR REPLACE FUNCTION tidemark.lock_exclusively(p_shared bigint[], p_exclusive bigint[], p_campaigns text[],
    p_patience text) RETURNS boolean
    LANGUAGE plpgsql
    SET lock_timeout = '300ms'
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    patience CONSTANT text := CASE WHEN p_patience = '0' THEN '10s' ELSE p_patience END;
    until CONSTANT timestamptz := clock_timestamp() + patience::interval;
BEGIN
    LOOP
        BEGIN
            PERFORM CASE WHEN k.n > cardinality(p_shared) THEN pg_advisory_xact_lock(k.key)::text
                ELSE pg_advisory_xact_lock_shared(k.key)::text END
            FROM (SELECT u.key, u.n FROM unnest(p_shared || p_exclusive) WITH ORDINALITY AS u (key, n)
                ORDER BY u.key, u.n DESC) AS k;
            PERFORM tidemark.lock_campaigns(p_campaigns);
            RETURN true;
        EXCEPTION WHEN lock_not_available THEN
            IF clock_timestamp() >= until THEN
                RAISE EXCEPTION 'append: another transaction has held a lock that the condition, or the many tags, need for more than %', patience
                    USING ERRCODE = '55P03', HINT =
                        'try again; a session that has appended and stays open is named by `tidemark doctor`: commit it or end it';
            END IF;
        END;
        PERFORM pg_sleep(0.02 + 0.08 * random());
    END LOOP;
END
$$;

-- bound_wait makes the waits for locks that follow end after 10 s with 55P03, unless the session has a
-- lock_timeout. It returns the setting, which the caller puts back; a rollback does that too.
CREATE OR REPLACE FUNCTION tidemark.bound_wait() RETURNS text
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    patience CONSTANT text := current_setting('lock_timeout');
BEGIN
    IF patience = '0' THEN
        PERFORM set_config('lock_timeout', '10s', true);
    END IF;
    RETURN patience;
END
$$;

-- lock_keys locks keys, then campaigns: keys of types and tags shared, keys of conditions
-- exclusively. A transaction takes at most 64 locks on tags, so an import cannot exhaust the lock
-- table. Beyond that, events lock whole buckets of tags exclusively, and conditions on tags lock
-- all buckets of types, and so every append. A transaction that locks a tag exclusively also locks
-- the tag's bucket, shared, and so conflicts with an import. Appends with few tags do not.
CREATE OR REPLACE FUNCTION tidemark.lock_keys(p_types bigint[], p_tags bigint[], p_exclusive bigint[],
    p_campaigns text[]) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    shared bigint[] := p_types || p_tags;
    tags integer := cardinality(p_tags);
    key bigint;
BEGIN
    FOREACH key IN ARRAY p_exclusive LOOP
        IF key >> 48 = 32007 THEN
            shared := shared || tidemark.lock_key(32008, key & 63);
            tags := tags + 1;
        END IF;
    END LOOP;
    IF tags > 0 THEN
        tags := tags + coalesce(nullif(current_setting('tidemark.tags_locked', true), ''), '0')::integer;
        IF tags > 64 THEN
            shared := p_types;
            p_exclusive := array(
                SELECT tidemark.lock_key(32008, k.key & 63) FROM unnest(p_tags) AS k (key)
                UNION SELECT k.key FROM unnest(p_exclusive) AS k (key) WHERE k.key >> 48 <> 32007
                UNION SELECT tidemark.lock_key(32006, bucket)
                    FROM unnest(p_exclusive) AS k (key), generate_series(0, 63) AS bucket WHERE k.key >> 48 = 32007);
        ELSE
            PERFORM set_config('tidemark.tags_locked', tags::text, true);
        END IF;
    END IF;
    IF p_exclusive <> '{}' THEN
        RETURN tidemark.lock_exclusively(shared, p_exclusive, p_campaigns, current_setting('lock_timeout'));
    END IF;
    PERFORM pg_advisory_xact_lock_shared(u.key) FROM (SELECT u.key FROM unnest(shared) AS u (key) ORDER BY u.key) AS u;
    IF cardinality(p_campaigns) = 1 THEN
        RETURN tidemark.lock_campaign(p_campaigns[1]);
    END IF;
    PERFORM tidemark.lock_campaigns(p_campaigns);
    RETURN true;
END
$$;

-- lock_untagged locks the key of a type, shared, which conditions on untagged events take
-- exclusively. Then it locks the campaign. Like lock_campaign it is used in expressions, as are
-- hold_floor and made_id.
CREATE OR REPLACE FUNCTION tidemark.lock_untagged(p_campaign_id text, p_type text) RETURNS boolean
    LANGUAGE sql
    RETURN pg_advisory_xact_lock_shared(tidemark.type_key(p_type)) IS NOT NULL
        AND tidemark.lock_campaign(p_campaign_id);

-- next_floor returns the setting tidemark.floor after one more call.
CREATE OR REPLACE FUNCTION tidemark.next_floor(p_last bigint, p_held bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    RETURN greatest(0, least(coalesce(p_last, 0), p_held & 281474976710655)) |
        ((least(greatest(coalesce(p_held >> 48, 0), 0), 32766) + 1) << 48);

-- hold_floor takes the writer floor and returns the time. It reads the last value first, then takes
-- the lock that names it. nextval follows only in a later statement: see tidemark.read_floor.
-- A transaction's first floor is below all its positions, so later calls reuse it. The setting
-- tidemark.floor keeps it, and is rolled back together with the lock, at the end of the transaction
-- or savepoint. Any caller can set it, so the lock is always taken, and never above the last value.
-- From bit 48 on the setting counts calls, one campaign each. Above the limit of campaigns it calls
-- count_campaigns.
CREATE OR REPLACE FUNCTION tidemark.hold_floor() RETURNS timestamptz
    LANGUAGE sql
    RETURN CASE WHEN pg_advisory_xact_lock_shared(tidemark.lock_key(32001,
        set_config('tidemark.floor', tidemark.next_floor(
        pg_sequence_last_value('tidemark.journal_position'),
            nullif(current_setting('tidemark.floor', true), '')::bigint)::text, true)::bigint)) IS NOT NULL
        AND (current_setting('tidemark.floor')::bigint >> 48 <= (tidemark.append_limits())[8]
            OR tidemark.count_campaigns('{}') IS NOT NULL) THEN clock_timestamp() END;
-- +goose StatementEnd

-- functions/erasure_hashes.sql
-- +goose StatementBegin
-- Keyed hashes of what erasures have taken, and of acts' requests.

-- derive returns the HMAC-SHA256 of a message, keyed with the installation's secret. Only functions of the
-- owner may call it.
CREATE OR REPLACE FUNCTION tidemark.derive(p_use text, p_message bytea) RETURNS bytea
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
REVOKE ALL ON FUNCTION tidemark.derive FROM PUBLIC;

-- spoken returns the words of a text in small letters, one space between them. What stands between words
-- is neither a letter nor a digit of ASCII, and no other character but general punctuation. It does not
-- depend on the database's locale: small letters are those of Latin, Greek and Cyrillic.
CREATE OR REPLACE FUNCTION tidemark.spoken(p_text text) RETURNS text
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

-- secret_hash is derive for texts.
CREATE OR REPLACE FUNCTION tidemark.secret_hash(p_use text, p_value text) RETURNS bytea
    LANGUAGE sql STABLE
    RETURN tidemark.derive(p_use, convert_to(p_value, 'UTF8'));
REVOKE ALL ON FUNCTION tidemark.secret_hash FROM PUBLIC;

-- request_hash returns what is kept of an act's request, of which p_sum is a hash: a keyed hash, as a request may
-- name a person.
CREATE OR REPLACE FUNCTION tidemark.request_hash(p_sum bytea) RETURNS bytea
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT tidemark.derive('act', p_sum)
$$;
REVOKE ALL ON FUNCTION tidemark.request_hash FROM PUBLIC;

-- tag_hashes returns keyed hashes of tags and of their keys: topics filter by both.
CREATE OR REPLACE FUNCTION tidemark.tag_hashes(p_tags text[]) RETURNS bytea[]
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(DISTINCT h.hash ORDER BY h.hash), '{}') FROM unnest(p_tags) AS t (tag)
    CROSS JOIN LATERAL (VALUES (t.tag), (split_part(t.tag, '=', 1))) AS v (value)
    CROSS JOIN LATERAL (SELECT tidemark.secret_hash('tag', v.value) AS hash OFFSET 0) AS h
$$;
REVOKE ALL ON FUNCTION tidemark.tag_hashes FROM PUBLIC;

-- notices returns what the events had that notices are about, a row for each type, intent and set of
-- tags. Of the tags it tells those alone that the caller names.
CREATE OR REPLACE FUNCTION tidemark.notices(p_positions bigint[], p_tags text[])
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
REVOKE ALL ON FUNCTION tidemark.notices FROM PUBLIC;

-- erasable returns the strings of 4 characters and more in a document, and the numbers of 7.
CREATE OR REPLACE FUNCTION tidemark.erasable(p_document jsonb) RETURNS SETOF text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT DISTINCT v #>> '{}'
    FROM jsonb_path_query(p_document, 'strict $.** ? (@.type() == "string" || @.type() == "number")') AS v
    WHERE length(v #>> '{}') >= CASE jsonb_typeof(v) WHEN 'string' THEN 4 ELSE 7 END
$$;

-- erased_hashes returns the hashes of values for tidemark.erased_values. Of a long one it is that of the
-- first 8 words.
CREATE OR REPLACE FUNCTION tidemark.erased_hashes(p_key bytea, p_values text[])
    RETURNS TABLE (hash bytea, words smallint)
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

-- functions/append.sql
-- +goose StatementBegin
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
-- +goose StatementEnd

-- functions/append_all.sql
-- +goose StatementBegin
-- Appends to several campaigns in one call.

-- append_all_rows is append_rows for several campaigns.
CREATE OR REPLACE FUNCTION tidemark.append_all_rows(p_batches jsonb)
    RETURNS TABLE (campaign_id text, seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    old_snapshot CONSTANT boolean := current_setting('transaction_isolation') IN ('repeatable read', 'serializable');
    batch record;
BEGIN
    FOR batch IN
        SELECT b ->> 'campaign_id' AS id, b -> 'events' AS events, (b ->> 'expect')::bigint AS expect
            FROM jsonb_array_elements(p_batches) AS b WHERE b -> 'events' <> '[]'
    LOOP
        IF old_snapshot THEN
            RETURN QUERY SELECT batch.id, a.* FROM tidemark.append_rows_of_snapshot(batch.id, batch.events,
                batch.expect) AS a;
        ELSE
            RETURN QUERY SELECT batch.id, a.* FROM tidemark.append_rows(batch.id, batch.events, batch.expect) AS a;
        END IF;
    END LOOP;
END
$$;

-- check_batches raises TM004 for an invalid call for several campaigns. Otherwise it returns true.
CREATE OR REPLACE FUNCTION tidemark.check_batches(p_batches jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    limits CONSTANT integer[] := tidemark.append_limits();
    bad text;
    unknown text;
    expect text;
    n bigint;
BEGIN
    IF coalesce(jsonb_typeof(p_batches), 'null') <> 'array'
        OR jsonb_path_exists(p_batches, 'strict $[*] ? (@.type() != "object")') THEN
        RAISE EXCEPTION 'append: the batches are a JSON %, they must be an array of objects',
            coalesce(jsonb_typeof(p_batches), 'null')
            USING ERRCODE = 'TM004';
    END IF;
    SELECT min(left(coalesce(b ->> 'campaign_id', ''), 64)) FILTER (WHERE coalesce(octet_length(b ->> 'campaign_id'),
        0) NOT BETWEEN 1 AND limits[1] OR jsonb_typeof(b -> 'campaign_id') <> 'string'
            OR coalesce(jsonb_typeof(b -> 'events'), 'null') <> 'array'),
        sum(CASE WHEN jsonb_typeof(b -> 'events') = 'array' THEN jsonb_array_length(b -> 'events') END),
        min((b - '{campaign_id,events,expect}'::text[])::text) FILTER
            (WHERE b - '{campaign_id,events,expect}'::text[] <> '{}'),
        min(left(b ->> 'expect', 64)) FILTER (WHERE b ->> 'expect' !~ '^-?[0-9]{1,18}$')
    INTO bad, n, unknown, expect FROM jsonb_array_elements(p_batches) AS b;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION 'campaign id %: it must have 1 to % bytes (campaign_id_bytes of tidemark.limits), and its events must be an array', quote_literal(bad), limits[1]
            USING ERRCODE = 'TM004';
    ELSIF unknown IS NOT NULL THEN
        RAISE EXCEPTION 'append: % is no field of a batch: known are campaign_id, events, expect',
            (SELECT left(min(k), 64) FROM jsonb_object_keys(unknown::jsonb) AS k)
            USING ERRCODE = 'TM004';
    ELSIF expect IS NOT NULL THEN
        RAISE EXCEPTION 'append: a batch expects %, it must be the seq of the last event, or 0', quote_literal(expect)
            USING ERRCODE = 'TM004';
    ELSIF n > limits[2] THEN
        RAISE EXCEPTION 'append: % events in one call, the limit is % (events_per_call of tidemark.limits)', n,
            limits[2]
            USING ERRCODE = 'TM004', HINT = 'append them in several calls';
    END IF;
    RETURN true;
END
$$;

-- append_all is append for several campaigns in one call. p_batches is an array of {"campaign_id",
-- "events", "expect"}.
CREATE OR REPLACE FUNCTION tidemark.append_all(p_batches jsonb)
    RETURNS TABLE (campaign_id text, seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    good CONSTANT boolean := tidemark.check_batches(p_batches);
    all_events CONSTANT jsonb := jsonb_path_query_array(p_batches, '$[*].events[*]');
BEGIN
    PERFORM tidemark.lock_keys(tidemark.touched_types(all_events), tidemark.touched_tags(all_events), '{}',
        array(SELECT DISTINCT b ->> 'campaign_id' FROM jsonb_array_elements(p_batches) AS b));
    RETURN QUERY SELECT * FROM tidemark.append_all_rows(p_batches);
END
$$;

-- append_all with text serves calls with a literal or an untyped parameter, as append does.
CREATE OR REPLACE FUNCTION tidemark.append_all(p_batches text)
    RETURNS TABLE (campaign_id text, seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE sql
BEGIN ATOMIC
    SELECT * FROM tidemark.append_all(tidemark.parsed_json(p_batches));
END;
-- +goose StatementEnd

-- functions/archives.sql
-- +goose StatementBegin
-- Archives of campaigns (docs/adr/0018).

-- require_positions raises TM014 if an archive has events after p_after and up to p_until. With p_types
-- it asks for events of these types alone. Readers of the journal call it, and learn names of objects.
CREATE OR REPLACE FUNCTION tidemark.require_positions(p_after bigint, p_until bigint, p_types text[] DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    most CONSTANT bigint := 1::bigint << 62; -- ranges have no greater bound
    span CONSTANT int8range := int8range(least(greatest(p_after, 0), most), least(greatest(p_after, p_until, 0), most),
        '(]');
    a tidemark.archives;
BEGIN
    IF EXISTS (SELECT FROM tidemark.archives x
        WHERE x.campaigns > 0 AND int8range(x.first_position, x.last_position, '[]') && span
            AND (p_types IS NULL OR x.event_types && p_types)) THEN
        SELECT * INTO a FROM tidemark.archives x
        WHERE x.campaigns > 0 AND int8range(x.first_position, x.last_position, '[]') && span
            AND (p_types IS NULL OR x.event_types && p_types)
        ORDER BY x.last_position LIMIT 1;
        RAISE EXCEPTION 'events after position % are archived in %, up to position %', p_after, a.object, a.last_position
            USING ERRCODE = 'TM014', HINT = 'set TIDEMARK_ARCHIVE_URL, bring them back with `tidemark campaign restore '
                '--object`, or read after them',
                DETAIL = jsonb_build_object('object', a.object, 'position', a.last_position)::text;
    END IF;
    RETURN true;
END
$$;

-- archive_mark returns 0 if no archive has events after p_after and up to p_until. Otherwise it returns a
-- number that each archive, each restore and another instance of the database change, so that a reader knows
-- whether it has all objects, and no others. It reads the last change of each lane. The changes are in the rows
-- themselves, so the mark of a copy is always that of its rows.
CREATE OR REPLACE FUNCTION tidemark.archive_mark(p_after bigint, p_until bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    most CONSTANT bigint := 1::bigint << 62; -- ranges have no greater bound
    span CONSTANT int8range := int8range(least(greatest(p_after, 0), most), least(greatest(p_after, p_until, 0), most),
        '(]');
BEGIN
    IF NOT EXISTS (SELECT FROM tidemark.archives x
        WHERE x.campaigns > 0 AND int8range(x.first_position, x.last_position, '[]') && span) THEN
        RETURN 0;
    END IF;
    RETURN (SELECT hashtextextended(coalesce(tidemark.instance(), ''), bit_xor(hashint8extended(
            (extract(epoch FROM c.changed_at) * 1000000)::bigint, lanes.n))) | 1
        FROM generate_series(0, 7) AS lanes (n) CROSS JOIN LATERAL (
            SELECT a.changed_at FROM tidemark.archives a WHERE a.lane = lanes.n ORDER BY a.changed_at DESC LIMIT 1
        ) AS c);
END
$$;

-- begin_manifest returns a lane and a time for a change of tidemark.archives. No other transaction has the lane
-- until this one ends, and no committed change in it is as late: otherwise a change that commits late would
-- not change the mark. Only the ninth change at once waits.
CREATE OR REPLACE FUNCTION tidemark.begin_manifest(OUT lane smallint, OUT changed_at timestamptz)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    SELECT n INTO lane FROM generate_series(0, 7) AS n
    WHERE pg_try_advisory_xact_lock(tidemark.lock_key(32010, n)) LIMIT 1;
    IF lane IS NULL THEN
        lane := 0;
        PERFORM pg_advisory_xact_lock(tidemark.lock_key(32010, 0));
    END IF;
    SELECT a.changed_at + interval '1 microsecond' INTO changed_at FROM tidemark.archives a
    WHERE a.lane = begin_manifest.lane ORDER BY a.changed_at DESC LIMIT 1;
    changed_at := greatest(changed_at, clock_timestamp());
END
$$;
REVOKE ALL ON FUNCTION tidemark.begin_manifest FROM PUBLIC;

-- archived_after returns the events in objects with events after p_after, up to p_most objects: those that
-- have an event of p_types, or all. since is the time of the first object's last append. within is true if
-- some of the events may be before p_after, or if there are more objects.
CREATE OR REPLACE FUNCTION tidemark.archived_after(p_after bigint, p_types text[], p_most integer)
    RETURNS TABLE (events bigint, since timestamptz, within boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    SELECT coalesce(sum(a.events) FILTER (WHERE p_types IS NULL OR a.event_types && p_types), 0)::bigint,
        min(a.last_recorded) FILTER (WHERE p_types IS NULL OR a.event_types && p_types),
        coalesce(bool_or(a.first_position <= p_after) OR count(*) >= p_most, false)
    FROM (SELECT * FROM tidemark.archives x WHERE x.campaigns > 0 AND x.last_position > p_after
        ORDER BY x.last_position LIMIT p_most) a;
END
$$;

-- is_archived reports whether an archived event has a place. Its id and content are in the object alone.
-- The last event of a campaign stays, with its id.
CREATE OR REPLACE FUNCTION tidemark.is_archived(p_campaign_id text, p_seq bigint, p_position bigint) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN coalesce((SELECT j.event_version = 0 AND j.seq > p_seq AND j.position > p_position FROM tidemark.journal j
        WHERE j.campaign_id = p_campaign_id AND j.seq >= p_seq ORDER BY j.seq LIMIT 1), false);

-- archive_lines returns the events of campaigns as lines of an archive, a row for each campaign that has
-- events, in the order of campaign and seq. A line has all columns; the first names are those of an export.
-- Each ends with a newline. No setting of the session changes it.
CREATE OR REPLACE FUNCTION tidemark.archive_lines(p_campaign_ids text[]) RETURNS TABLE (campaign_id text, lines text)
    LANGUAGE sql STABLE
    SET timezone = 'UTC' SET datestyle = 'ISO' SET enable_seqscan = off SET enable_bitmapscan = off
        SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT c.id, e.lines
    FROM (SELECT DISTINCT u.id COLLATE "C" AS id FROM unnest(p_campaign_ids) AS u (id) ORDER BY 1) AS c
    CROSS JOIN LATERAL (
        SELECT string_agg(s.line || E'\n', '') AS lines
        FROM (
            SELECT row_to_json(l)::text AS line
            FROM tidemark.journal j CROSS JOIN LATERAL (
                SELECT j.campaign_id, j.event_id AS id, j.event_type AS type, j.event_version AS version, j.intent,
                    j.aggregate_type, j.aggregate_id, j.actor, j.tags, j.payload, j.metadata, j.occurred_at, j.seq,
                    j."position", j.recorded_at, j.payload_bytes
            ) AS l
            WHERE j.campaign_id = c.id ORDER BY j.seq
        ) AS s
    ) AS e
    WHERE e.lines IS NOT NULL
    ORDER BY c.id
$$;
REVOKE ALL ON FUNCTION tidemark.archive_lines FROM PUBLIC;

-- not_archivable returns the campaigns that may not leave the journal, with the reason: something still
-- has to read their events.
CREATE OR REPLACE FUNCTION tidemark.not_archivable(p_campaign_ids text[]) RETURNS TABLE (campaign_id text, reason text)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
        SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    place record;
    behind record;
    busy CONSTANT text := (
        SELECT min(w.reason) FROM (
            SELECT format('a rebuild of %s is under way', r.projection) AS reason FROM tidemark.rebuilds r
            UNION ALL SELECT format('projection %s is not in step yet', p.name) FROM tidemark.projections p
                WHERE p.state <> 'active'
            UNION ALL SELECT format('erasure %s has not ended', e.id) FROM tidemark.erasures e WHERE e.ended_at IS NULL
        ) AS w);
BEGIN
    SELECT r.topic, r.publisher, r.position INTO place FROM tidemark.readers r ORDER BY r.position LIMIT 1;
    SELECT d.projection, d.campaign_id AS key, d.next_seq AS position INTO behind
    FROM tidemark.failed d JOIN tidemark.projections p ON p.name = d.projection AND p.scope = 'journal'
    ORDER BY d.next_seq LIMIT 1;
    RETURN QUERY
    SELECT c.id, w.reason
    FROM (SELECT DISTINCT u.id FROM unnest(p_campaign_ids) AS u (id)) AS c
    LEFT JOIN LATERAL (SELECT j.seq, j.position, j.event_version FROM tidemark.journal j WHERE j.campaign_id = c.id
        ORDER BY j.seq DESC LIMIT 1) AS h ON true
    CROSS JOIN LATERAL (SELECT CASE
        WHEN h.seq IS NULL THEN 'it has no events'
        WHEN h.event_version = 0 THEN 'it is archived already'
        WHEN busy IS NOT NULL THEN busy
        WHEN EXISTS (SELECT FROM tidemark.scheduled s WHERE s.campaign_id = c.id) THEN 'it has a scheduled append'
        WHEN EXISTS (SELECT FROM tidemark.parked k WHERE k.campaign_id = c.id) THEN 'an event of it is parked'
        WHEN place.position < h.position THEN format('%s of %s is at position %s, before its last event at %s',
            place.publisher, place.topic, place.position, h.position)
        WHEN behind.position <= h.position THEN format('key %s of %s waits at position %s', left(behind.key, 64),
            behind.projection, behind.position)
        ELSE coalesce(
            (SELECT format('group %s has work for it', o.consumer_group) FROM tidemark.consumer_groups g
                CROSS JOIN LATERAL (SELECT o.consumer_group FROM tidemark.outbox o WHERE o.consumer_group = g.name
                    AND o.campaign_id = c.id LIMIT 1) o LIMIT 1),
            (SELECT format('an append has asked for it, it is kept until %s', to_char(a.kept_until AT TIME ZONE 'UTC',
                    'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
                FROM tidemark.restore_requests a WHERE a.campaign_id = c.id AND a.kept_until > clock_timestamp()),
            (SELECT format('projection %s is behind in it (%s)', d.projection, d.status) FROM tidemark.failed d
                WHERE d.campaign_id = c.id LIMIT 1),
            (SELECT format('group %s stands at event %s of %s', g.name, coalesce(l.checkpoint, 0), h.seq)
                FROM tidemark.consumer_groups g LEFT JOIN LATERAL (SELECT l.checkpoint FROM tidemark.leases l
                    WHERE l.consumer_group = g.name AND l.campaign_id = c.id LIMIT 1) l ON true
                WHERE g.name > '' AND g.state <> 'across' AND coalesce(l.checkpoint, 0) <> h.seq LIMIT 1))
        END AS reason) AS w
    WHERE w.reason IS NOT NULL;
END
$$;
REVOKE ALL ON FUNCTION tidemark.not_archivable FROM PUBLIC;

-- require_batch refuses a call of archive or restore that would not see what it has locked, would lock too
-- much, or does not name each campaign once, with a value.
CREATE OR REPLACE FUNCTION tidemark.require_batch(p_act text, p_campaign_ids text[], p_values integer) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'tidemark.% needs READ COMMITTED: it looks at campaigns after it has locked them', p_act
            USING ERRCODE = 'TM008', HINT = 'begin another transaction';
    ELSIF cardinality(p_campaign_ids) > (tidemark.append_limits())[8] THEN
        RAISE EXCEPTION '%: % campaigns in one call, the limit is % (campaigns_per_transaction of tidemark.limits)',
            p_act, cardinality(p_campaign_ids), (tidemark.append_limits())[8]
            USING ERRCODE = 'TM011', HINT = format('%s them in several calls', p_act);
    ELSIF cardinality(p_campaign_ids) IS DISTINCT FROM p_values
        OR p_values <> (SELECT count(DISTINCT u.id) FROM unnest(p_campaign_ids) AS u (id)) THEN
        RAISE EXCEPTION '%: % campaigns with % values, or one of them is NULL or named twice', p_act,
            cardinality(p_campaign_ids), p_values
            USING ERRCODE = 'invalid_parameter_value', HINT = 'name each campaign once, with one value';
    END IF;
END
$$;
REVOKE ALL ON FUNCTION tidemark.require_batch FROM PUBLIC;

-- leave_stubs deletes the events of campaigns, but for those with tags and the last of each, which it makes stubs
-- with the mark p_archived. It returns how many events it has deleted, and a hash of their ids.
CREATE OR REPLACE FUNCTION tidemark.leave_stubs(p_campaign_ids text[], p_hashes bytea[], p_archived jsonb,
    OUT events bigint, OUT hash bigint)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    PERFORM tidemark.begin_change('archive');
    WITH heads AS MATERIALIZED (
        SELECT u.id, u.hash, h.seq, h.events FROM unnest(p_campaign_ids, p_hashes) AS u (id, hash)
        CROSS JOIN LATERAL (SELECT max(j.seq) AS seq, count(*) AS events FROM tidemark.journal j
            WHERE j.campaign_id = u.id) AS h
    ), deleted AS (
        DELETE FROM tidemark.journal j USING heads h
        WHERE j.campaign_id = h.id AND j.seq < h.seq AND coalesce(j.tags, '{}') = '{}'
        RETURNING j.campaign_id, uuid_hash_extended(j.event_id, 0) AS hash
    ), counted AS MATERIALIZED (
        SELECT d.campaign_id, count(*) AS n, bit_xor(d.hash) AS hash FROM deleted d GROUP BY d.campaign_id
    ), stubs AS (
        UPDATE tidemark.journal j SET event_version = 0, payload = '{}', payload_bytes = 2, tags = NULL, actor = NULL,
            aggregate_type = NULL, aggregate_id = NULL,
            metadata = jsonb_build_object('$archived', p_archived || CASE WHEN j.seq < h.seq THEN '{}'
                ELSE jsonb_build_object('hash', encode(h.hash, 'hex'), 'events', h.events, 'removed', coalesce(c.n, 0),
                'removed_hash', coalesce(c.hash, 0)) END)
        FROM heads h LEFT JOIN counted c ON c.campaign_id = h.id
        WHERE j.campaign_id = h.id AND (j.seq = h.seq OR j.tags <> '{}')
    )
    SELECT coalesce(sum(c.n), 0), coalesce(bit_xor(c.hash), 0) INTO events, hash FROM counted c;
    PERFORM tidemark.end_change();
END
$$;

-- unchanged returns those of the chosen campaigns whose lines have the hashes that the caller has read from an object,
-- so that what is deleted is what the object has. The hashes that it returns are its own. erased says whether one of
-- the object's campaigns has another hash, and an erased event.
CREATE OR REPLACE FUNCTION tidemark.unchanged(p_campaign_ids text[], p_hashes bytea[], p_chosen text[],
    OUT ids text[], OUT hashes bytea[], OUT erased boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    WITH now AS MATERIALIZED (
        SELECT l.campaign_id AS id, sha256(convert_to(l.lines, 'UTF8')) AS hash
        FROM tidemark.archive_lines(p_campaign_ids) AS l
    )
    SELECT coalesce(array_agg(u.id) FILTER (WHERE u.hash = n.hash AND u.id = ANY (p_chosen)), '{}'),
        array_agg(n.hash) FILTER (WHERE u.hash = n.hash AND u.id = ANY (p_chosen)),
        coalesce(bool_or(u.hash IS DISTINCT FROM n.hash AND EXISTS (SELECT FROM tidemark.journal j
            WHERE j.campaign_id = u.id AND j.metadata ? '$erased')), false)
    INTO ids, hashes, erased
    FROM unnest(p_campaign_ids, p_hashes) AS u (id, hash) LEFT JOIN now n ON n.id = u.id;
END
$$;

-- archive takes campaigns that an object has out of the journal, and returns those that it leaves, with
-- the reason. It computes the SHA-256 of each campaign's lines under the campaign's lock and keeps it:
-- restore puts nothing else back. p_hashes are the hashes of what the caller has read from the object. They
-- decide one thing: a campaign that has another hash by now has changed, and stays. Events with tags stay as
-- stubs, so that conditions see them, and so does the last one, which keeps the campaign's head. A campaign's
-- lock is tried, never waited for. If an erasure has taken what a line of the object tells, none of its
-- campaigns is archived in it. An object may be written again, with more of its campaigns or others: its row
-- describes all that is archived in it now.
CREATE OR REPLACE FUNCTION tidemark.archive(p_object text, p_sha256 bytea, p_bytes bigint, p_campaign_ids text[],
    p_hashes bytea[], p_actor text, p_reason text) RETURNS TABLE (campaign_id text, reason text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
        SET jit = off
    SET lock_timeout = '300ms'
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    free text[];
    chosen text[];
    refused jsonb;
    hashes bytea[];
    erased boolean;
    total record;
    gone record;
    change record;
BEGIN
    PERFORM tidemark.require_batch('archive', p_campaign_ids, cardinality(p_hashes));
    PERFORM pg_advisory_xact_lock_shared(tidemark.lock_key(32009, 0)); -- an erasure begins before or after this
    SELECT coalesce(array_agg(c.id) FILTER (WHERE c.free), '{}') INTO free
    FROM (SELECT u.id, pg_try_advisory_xact_lock(tidemark.lock_key(32002, hashtextextended(u.id, 0))) AS free
        FROM unnest(p_campaign_ids) AS u (id)) AS c;
    RETURN QUERY SELECT u.id, 'an append to it is open' FROM unnest(p_campaign_ids) AS u (id)
        WHERE u.id <> ALL (free);
    SELECT coalesce(jsonb_object_agg(n.campaign_id, n.reason), '{}') INTO refused
    FROM tidemark.not_archivable(free) AS n;
    RETURN QUERY SELECT n.key, n.value FROM jsonb_each_text(refused) AS n;
    chosen := array(SELECT u.id FROM unnest(free) AS u (id) WHERE NOT refused ? u.id);
    SELECT u.ids, u.hashes, u.erased INTO free, hashes, erased
    FROM tidemark.unchanged(p_campaign_ids, p_hashes, chosen) AS u;
    IF erased THEN
        free := '{}';
    END IF;
    RETURN QUERY SELECT u.id, CASE WHEN erased THEN 'an event that was copied with it was erased meanwhile'
        ELSE 'it has changed since it was copied' END FROM unnest(chosen) AS u (id) WHERE u.id <> ALL (free);
    IF free = '{}' THEN
        RETURN;
    END IF;

    SELECT count(*) AS events, min(j.position) AS first, max(j.position) AS last, max(j.recorded_at) AS recorded,
        array_agg(DISTINCT j.event_type::text) AS types INTO total
    FROM unnest(free) AS u (id) CROSS JOIN LATERAL (SELECT j.position, j.recorded_at, j.event_type
        FROM tidemark.journal j WHERE j.campaign_id = u.id) AS j;
    gone := tidemark.leave_stubs(free, hashes, jsonb_build_object('object', p_object,
        'sha256', encode(p_sha256, 'hex'), 'bytes', p_bytes));
    change := tidemark.begin_manifest();
    INSERT INTO tidemark.archives AS a (object, sha256, bytes, campaigns, events, removed, removed_hash, first_position,
        last_position, last_recorded, event_types, members, actor, reason, lane, changed_at)
    VALUES (p_object, p_sha256, p_bytes, cardinality(free), total.events, gone.events, gone.hash, total.first,
        total.last, total.recorded, total.types, array(SELECT hashtextextended(u.id, 0)
            FROM unnest(p_campaign_ids) AS u (id)), p_actor, p_reason, change.lane, change.changed_at)
    ON CONFLICT (object) DO UPDATE SET sha256 = excluded.sha256, bytes = excluded.bytes,
        campaigns = a.campaigns + excluded.campaigns, events = a.events + excluded.events,
        removed = a.removed + excluded.removed, removed_hash = a.removed_hash # excluded.removed_hash,
        first_position = CASE WHEN a.campaigns = 0 THEN excluded.first_position
            ELSE least(a.first_position, excluded.first_position) END,
        last_position = CASE WHEN a.campaigns = 0 THEN excluded.last_position
            ELSE greatest(a.last_position, excluded.last_position) END,
        last_recorded = CASE WHEN a.campaigns = 0 THEN excluded.last_recorded
            ELSE greatest(a.last_recorded, excluded.last_recorded) END,
        event_types = CASE WHEN a.campaigns = 0 THEN excluded.event_types
            ELSE array(SELECT unnest(a.event_types) UNION SELECT unnest(excluded.event_types)) END,
        members = array(SELECT unnest(a.members) UNION SELECT unnest(excluded.members)),
        actor = excluded.actor, reason = excluded.reason, archived_at = excluded.archived_at,
        lane = excluded.lane, changed_at = excluded.changed_at
    WHERE a.campaigns = 0 OR a.sha256 = excluded.sha256;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'archive: object % has archived campaigns, with another SHA-256', p_object
            USING ERRCODE = 'TM004', HINT = 'write the events to an object with another name';
    END IF;
    PERFORM tidemark.log_act(p_actor, 'events_archived', p_reason, '', '',
        CASE WHEN cardinality(free) = 1 THEN free[1] END, 0, jsonb_build_object('object', p_object,
            'campaigns', free, 'events', total.events), '', 0, '');
END
$$;
REVOKE ALL ON FUNCTION tidemark.archive FROM PUBLIC;
-- +goose StatementEnd

-- functions/archives_restore.sql
-- +goose StatementBegin
-- Campaigns come back from archives.

-- unlike says how lines differ from what was archived of a campaign, whose stub has the mark.
CREATE OR REPLACE FUNCTION tidemark.unlike(p_campaign_id text, p_lines text, p_mark jsonb) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t record;
    event jsonb;
    stub record;
    n bigint := 0;
BEGIN
    FOR t IN SELECT l.line FROM string_to_table(rtrim(p_lines, E'\n'), E'\n') AS l (line) LOOP
        n := n + 1;
        event := t.line;
        SELECT j.position, j.event_id INTO stub FROM tidemark.journal j
        WHERE j.campaign_id = p_campaign_id AND j.seq = n;
        IF event ->> 'campaign_id' IS DISTINCT FROM p_campaign_id THEN
            RETURN format('line %s names campaign %s', n, left(event ->> 'campaign_id', 64));
        ELSIF event ->> 'seq' IS DISTINCT FROM n::text THEN
            RETURN format('line %s has seq %s', n, left(event ->> 'seq', 64));
        ELSIF event ->> 'position' <> stub.position::text THEN
            RETURN format('line %s has position %s, the event has %s', n, left(event ->> 'position', 64), stub.position);
        ELSIF event ->> 'id' <> stub.event_id::text THEN
            RETURN format('line %s has id %s, the event has %s', n, left(event ->> 'id', 64), stub.event_id);
        END IF;
    END LOOP;
    IF n::text <> p_mark ->> 'events' THEN
        RETURN format('there are %s lines, %s events were archived', n, p_mark ->> 'events');
    END IF;
    RETURN format('their SHA-256 is %s, not %s', encode(sha256(convert_to(p_lines, 'UTF8')), 'hex'), p_mark ->> 'hash');
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN format('line %s is not JSON', n);
END
$$;
REVOKE ALL ON FUNCTION tidemark.unlike FROM PUBLIC;

-- put_back writes lines of an archive in the place of campaigns' stubs.
CREATE OR REPLACE FUNCTION tidemark.put_back(p_campaign_ids text[], p_lines text[]) RETURNS void
    LANGUAGE plpgsql
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM tidemark.begin_change('restore');
    DELETE FROM tidemark.journal j USING unnest(p_campaign_ids) AS u (id) WHERE j.campaign_id = u.id;
    PERFORM tidemark.end_change();
    INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent,
        aggregate_type, aggregate_id, actor, tags, payload, metadata, payload_bytes, occurred_at, recorded_at)
    SELECT l.campaign_id, l.seq, l."position", l.id, l.type, l.version, l.intent, l.aggregate_type, l.aggregate_id,
        l.actor, l.tags, l.payload, l.metadata, l.payload_bytes, l.occurred_at, l.recorded_at
    FROM unnest(p_lines) AS u (lines) CROSS JOIN LATERAL string_to_table(rtrim(u.lines, E'\n'), E'\n') AS t (line)
    CROSS JOIN LATERAL jsonb_to_record(t.line::jsonb) AS l (campaign_id text, seq bigint, "position" bigint, id uuid,
        type text, version integer, intent tidemark.intent, aggregate_type text, aggregate_id text, actor text,
        tags text[], payload jsonb, metadata jsonb, payload_bytes integer, occurred_at timestamptz,
        recorded_at timestamptz);
END
$$;
REVOKE ALL ON FUNCTION tidemark.put_back FROM PUBLIC;

-- taken says which position of a campaign's lines belongs to another event, or returns NULL.
CREATE OR REPLACE FUNCTION tidemark.taken(p_campaign_id text, p_lines text) RETURNS text
    LANGUAGE sql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
        SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('position %s belongs to event %s of campaign %s: this database is a copy whose sequence was behind; '
        'run `tidemark copy repair`, and read the campaign in the archive', j.position, j.seq, left(j.campaign_id, 64))
    FROM string_to_table(rtrim(p_lines, E'\n'), E'\n') AS t (line)
    CROSS JOIN LATERAL jsonb_to_record(t.line::jsonb) AS l ("position" bigint)
    JOIN tidemark.journal j ON j.position = l."position" AND j.campaign_id <> p_campaign_id
    ORDER BY j.position LIMIT 1
$$;
REVOKE ALL ON FUNCTION tidemark.taken FROM PUBLIC;

-- log_restored writes to the log of operators that campaigns with these marks are back. If requests are served, a
-- campaign that an append has asked for has a row of its own.
CREATE OR REPLACE FUNCTION tidemark.log_restored(p_campaign_ids text[], p_marks jsonb[], p_serves boolean) RETURNS void
    LANGUAGE plpgsql
    SET timezone = 'UTC' SET datestyle = 'ISO'
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM tidemark.log_act(coalesce(r.asked_by, session_user),
        CASE WHEN r.asked_by IS NULL THEN 'events_restored' ELSE 'restored' END,
        CASE WHEN r.asked_by IS NOT NULL THEN 'an append asked for it' END, '', '',
        CASE WHEN cardinality(r.ids) = 1 THEN r.ids[1] END, 0, CASE WHEN r.asked_by IS NULL
            THEN jsonb_build_object('campaigns', r.ids, 'objects', r.objects, 'events', r.events)
            ELSE jsonb_build_object('request', jsonb_build_object('campaigns', r.ids, 'asked_at', r.asked_at)) END,
        '', 0, '')
    FROM (
        SELECT r.asked_by, r.asked_at, array_agg(u.id ORDER BY u.id) AS ids,
            array_agg(DISTINCT u.mark ->> 'object') AS objects, sum((u.mark ->> 'events')::bigint) AS events
        FROM unnest(p_campaign_ids, p_marks) AS u (id, mark)
        LEFT JOIN tidemark.restore_requests r ON r.campaign_id = u.id AND r.kept_until IS NULL AND p_serves
        GROUP BY r.asked_by, r.asked_at, r.campaign_id
    ) AS r;
END
$$;

-- restore puts the events of campaigns back in the place of their stubs. p_lines are the lines of each
-- campaign, which must have the hash that archive has computed. It returns the campaigns that it leaves, with
-- the reason: in a copy whose sequence was behind, another event may have a position of theirs. With p_keep it
-- serves requests, and not_archivable keeps their campaigns for so long.
CREATE OR REPLACE FUNCTION tidemark.restore(p_campaign_ids text[], p_lines text[], p_keep interval DEFAULT NULL)
    RETURNS TABLE (campaign_id text, reason text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET timezone = 'UTC' SET datestyle = 'ISO' SET enable_seqscan = off SET enable_bitmapscan = off
        SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
    SET lock_timeout = '300ms'
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    ids text[];
    texts text[];
    marks jsonb[];
    reasons text[];
    back integer[] := '{}';
    change record;
BEGIN
    PERFORM tidemark.require_batch('restore', p_campaign_ids, cardinality(p_lines));
    SELECT array_agg(c.id), array_agg(c.lines) INTO ids, texts
    FROM (SELECT u.id, u.lines, pg_try_advisory_xact_lock(tidemark.lock_key(32002, hashtextextended(u.id, 0))) AS free
        FROM unnest(p_campaign_ids, p_lines) AS u (id, lines)) AS c WHERE c.free;
    RETURN QUERY SELECT u.id, 'an append to it is open' FROM unnest(p_campaign_ids) AS u (id)
        WHERE u.id <> ALL (coalesce(ids, '{}'));
    SELECT array_agg(u.id), array_agg(u.lines), array_agg(h.mark), array_agg(CASE
        WHEN h.mark IS NULL THEN 'it is not archived'
        WHEN encode(sha256(convert_to(u.lines, 'UTF8')), 'hex') = h.mark ->> 'hash' THEN ''
        ELSE 'the lines are not those that were archived: ' || tidemark.unlike(u.id, coalesce(u.lines, ''), h.mark) END)
    INTO ids, texts, marks, reasons
    FROM unnest(ids, texts) AS u (id, lines) LEFT JOIN LATERAL (
        SELECT CASE WHEN j.event_version = 0 THEN j.metadata -> '$archived' END AS mark FROM tidemark.journal j
        WHERE j.campaign_id = u.id ORDER BY j.seq DESC LIMIT 1
    ) AS h ON true;
    RETURN QUERY SELECT u.id, u.reason FROM unnest(ids, reasons) AS u (id, reason) WHERE u.reason IS DISTINCT FROM '';
    SELECT array_agg(u.id), array_agg(u.lines), array_agg(u.mark) INTO ids, texts, marks
    FROM unnest(ids, texts, marks, reasons) AS u (id, lines, mark, reason) WHERE u.reason = '';
    IF ids IS NULL THEN
        RETURN;
    END IF;

    BEGIN
        PERFORM tidemark.put_back(ids, texts);
    EXCEPTION WHEN unique_violation THEN -- so each on its own
        FOR n IN 1 .. cardinality(ids) LOOP
            BEGIN
                PERFORM tidemark.put_back(ids[n:n], texts[n:n]);
                back := back || n;
            EXCEPTION WHEN unique_violation THEN
                campaign_id := ids[n];
                reason := coalesce(tidemark.taken(ids[n], texts[n]), SQLERRM);
                RETURN NEXT;
            END;
        END LOOP;
        IF back = '{}' THEN
            RETURN;
        END IF;
        SELECT array_agg(ids[b.n]), array_agg(marks[b.n]) INTO ids, marks FROM unnest(back) AS b (n);
    END;
    change := tidemark.begin_manifest();
    UPDATE tidemark.archives a SET campaigns = a.campaigns - m.campaigns, events = a.events - m.events,
        removed = a.removed - m.removed, removed_hash = a.removed_hash # m.removed_hash, lane = change.lane,
        changed_at = change.changed_at
    FROM (
        SELECT u.mark ->> 'object' AS object, count(*) AS campaigns, sum((u.mark ->> 'events')::bigint) AS events,
            sum((u.mark ->> 'removed')::bigint) AS removed, bit_xor((u.mark ->> 'removed_hash')::bigint) AS removed_hash
        FROM unnest(marks) AS u (mark) GROUP BY 1
    ) AS m
    WHERE a.object = m.object;
    PERFORM tidemark.log_restored(ids, marks, p_keep IS NOT NULL);
    UPDATE tidemark.restore_requests r SET error = '', kept_until = clock_timestamp() + coalesce(p_keep, '0')
    FROM unnest(ids) AS u (id) WHERE r.campaign_id = u.id AND r.kept_until IS NULL;
    INSERT INTO tidemark.retention_due (policy, campaign_id, due_at)
    SELECT t.policy, u.id, clock_timestamp() FROM unnest(ids) AS u (id) CROSS JOIN tidemark.retention t
    ORDER BY t.policy, u.id ON CONFLICT DO NOTHING;
END
$$;
REVOKE ALL ON FUNCTION tidemark.restore FROM PUBLIC;

-- ask_restore asks workers to bring an archived campaign back, and returns whether it is archived: if not,
-- append again. Call it after an append has failed with TM014, in another transaction, as often as you
-- like. It waits for an open transaction that asks for the same campaign: for 10 s, or for the session's
-- lock_timeout. It raises TM015 if no worker has served requests for 2 minutes, or 1,000 of them are open: a
-- few more if calls run at once.
CREATE OR REPLACE FUNCTION tidemark.ask_restore(p_campaign_id text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    most CONSTANT integer := 1000;
    patience text;
BEGIN
    IF (SELECT j.event_version FROM tidemark.journal j WHERE j.campaign_id = p_campaign_id ORDER BY j.seq DESC LIMIT 1)
        IS DISTINCT FROM 0 THEN
        RETURN false;
    ELSIF NOT EXISTS (SELECT FROM tidemark.duties d WHERE d.name = 'restore'
        AND d.expires_at > clock_timestamp() - interval '2 min') THEN
        RAISE EXCEPTION 'campaign % is archived, and no worker brings campaigns back: add restore to the file of TIDEMARK_RETENTION, or run `tidemark campaign restore`', left(p_campaign_id, 64)
            USING ERRCODE = 'TM015';
    ELSIF EXISTS (SELECT FROM tidemark.restore_requests r
        WHERE r.campaign_id = p_campaign_id AND r.kept_until IS NULL) THEN
        RETURN true;
    ELSIF (SELECT count(*) FROM tidemark.restore_requests r WHERE r.kept_until IS NULL) >= most THEN
        RAISE EXCEPTION '% requests for archived campaigns are open, which is the limit: `tidemark campaign requests` shows why', most
            USING ERRCODE = 'TM015';
    END IF;
    patience := tidemark.bound_wait();
    INSERT INTO tidemark.restore_requests AS r (campaign_id, asked_by, asked_at, attempt_at)
    VALUES (p_campaign_id, session_user, clock_timestamp(), clock_timestamp())
    ON CONFLICT (campaign_id) DO UPDATE SET asked_by = excluded.asked_by, asked_at = excluded.asked_at, attempts = 0,
        attempt_at = excluded.attempt_at, error = '', kept_until = NULL -- it was archived again
    WHERE r.kept_until IS NOT NULL;
    PERFORM set_config('lock_timeout', patience, true);
    RETURN true;
END
$$;
-- +goose StatementEnd

-- functions/claims.sql
-- +goose StatementBegin
-- Workers find campaigns that have work, and lease them. For the form of the statements see leases.sql.

-- claim_around finds campaigns that have work and no live lease, from just after p_cursor around
-- the whole outbox, and leases up to p_limit of them. It reads the next few rows, then steps from
-- campaign to campaign along the outbox's primary key and stops at the limit. So its cost follows
-- the campaigns that it returns plus those that others hold (at most p_steps), not the backlog.
-- next_expiry is the earliest expiry among the leases it passed. next_cursor is where the next
-- claim continues, '' once it has been all around. A paused group has no work. It is long: each further
-- function that it called would cost 8 to 17 µs.
CREATE OR REPLACE FUNCTION tidemark.claim_around(p_group text, p_owner text, p_cursor text, p_limit integer,
    p_ttl interval, p_steps integer, OUT campaign_ids text[], OUT generations bigint[], OUT checkpoints bigint[],
    OUT next_cursor text, OUT next_expiry timestamptz, OUT crashed_ids text[])
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    far CONSTANT timestamptz := at + p_ttl + interval '1 s';
    fallen CONSTANT text[] := tidemark.fallen(p_group);
    idle_ids text[] := '{}';
    new_ids text[] := '{}';
    pass_idle text[];
    pass_new text[];
    missing integer := p_limit;
    pass_expiry timestamptz;
    steps_left integer := p_steps;
    pass_rows bigint;
    pass_steps integer;
    more boolean;
    start text COLLATE "C" := p_cursor;
    stop text COLLATE "C" := NULL;
    reached text;
BEGIN
    campaign_ids := '{}'; generations := '{}'; checkpoints := '{}'; crashed_ids := '{}';
    SELECT p.expires_at INTO next_expiry FROM tidemark.pauses p WHERE p.scope = 'group' AND p.consumer_group = p_group
        AND p.name = '' AND p.expires_at > at;
    IF FOUND THEN
        next_cursor := p_cursor;
        next_expiry := nullif(next_expiry, 'infinity');
        RETURN;
    END IF;
    FOR pass IN 1..2 LOOP
        -- The next few rows. Where campaigns have one or two rows each, this finds them all.
        SELECT coalesce(array_agg(c.campaign_id) FILTER (WHERE l.expires_at <= at), '{}'),
            coalesce(array_agg(c.campaign_id) FILTER (WHERE l.expires_at IS NULL), '{}'),
            min(l.expires_at) FILTER (WHERE l.expires_at > at), sum(c.rows), max(c.campaign_id)
        INTO pass_idle, pass_new, pass_expiry, pass_rows, reached
        FROM (
            SELECT o.campaign_id, count(*) AS rows
            FROM (
                SELECT o.campaign_id FROM tidemark.outbox o
                WHERE o.consumer_group = p_group AND o.campaign_id > start
                ORDER BY o.consumer_group, o.campaign_id LIMIT missing
            ) o
            WHERE stop IS NULL OR o.campaign_id <= stop
            GROUP BY o.campaign_id
        ) c
        LEFT JOIN LATERAL (
            SELECT tidemark.lease_ends(l.owner, l.expires_at, fallen, far) AS expires_at
            FROM tidemark.leases l
            WHERE l.consumer_group = p_group AND l.campaign_id BETWEEN c.campaign_id AND c.campaign_id
            ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
        ) l ON true;
        more := pass_rows = missing;
        idle_ids := idle_ids || pass_idle;
        new_ids := new_ids || pass_new;
        missing := p_limit - cardinality(idle_ids) - cardinality(new_ids);
        next_expiry := least(next_expiry, pass_expiry);
        next_cursor := coalesce(reached, next_cursor, start);

        -- From there on, from campaign to campaign.
        IF more AND missing > 0 THEN
            start := reached;
            WITH RECURSIVE walk AS (
                SELECT start AS campaign_id, false AS free, NULL::timestamptz AS expires_at, 0 AS found, 0 AS steps
                UNION ALL
                SELECT n.campaign_id, f.free, l.expires_at, w.found + f.free::integer, w.steps + 1
                FROM walk w
                CROSS JOIN LATERAL (
                    SELECT o.campaign_id FROM tidemark.outbox o
                    WHERE o.consumer_group = p_group AND o.campaign_id > w.campaign_id
                    ORDER BY o.consumer_group, o.campaign_id LIMIT 1
                ) n
                LEFT JOIN LATERAL (
                    SELECT tidemark.lease_ends(l.owner, l.expires_at, fallen, far) AS expires_at
                    FROM tidemark.leases l
                    WHERE l.consumer_group = p_group AND l.campaign_id BETWEEN n.campaign_id AND n.campaign_id
                    ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
                ) l ON true
                CROSS JOIN LATERAL (SELECT coalesce(l.expires_at <= at, true) AS free OFFSET 0) f
                WHERE w.found < missing AND w.steps < steps_left AND (stop IS NULL OR n.campaign_id <= stop)
            )
            SELECT coalesce(array_agg(w.campaign_id) FILTER (WHERE w.expires_at <= at), '{}'),
                coalesce(array_agg(w.campaign_id) FILTER (WHERE w.expires_at IS NULL AND w.free), '{}'),
                min(w.expires_at) FILTER (WHERE w.expires_at > at), max(w.steps), max(w.campaign_id)
            INTO pass_idle, pass_new, pass_expiry, pass_steps, reached
            FROM walk w;
            idle_ids := idle_ids || pass_idle;
            new_ids := new_ids || pass_new;
            missing := p_limit - cardinality(idle_ids) - cardinality(new_ids);
            next_expiry := least(next_expiry, pass_expiry);
            next_cursor := reached;
            steps_left := steps_left - pass_steps;
        END IF;
        EXIT WHEN missing <= 0 OR steps_left <= 0 OR p_cursor = '';
        stop := p_cursor;
        start := '';
    END LOOP;
    IF missing > 0 AND steps_left > 0 THEN
        next_cursor := ''; -- all around: starting at the beginning takes one walk instead of two
    END IF;
    next_expiry := nullif(next_expiry, 'infinity'); -- of paused campaigns

    IF missing < p_limit THEN
        SELECT a.campaign_ids, a.generations, a.checkpoints, a.crashed_ids
            INTO campaign_ids, generations, checkpoints, crashed_ids
        FROM tidemark.acquire_leases(p_group, p_owner, idle_ids, new_ids, p_ttl) AS a;
    END IF;
END
$$;

-- claim is the function that workers call. It is claim_around with two shortcuts, because a worker
-- often finds nothing or is woken by one append. An empty outbox needs no walk. If the outbox has
-- one campaign, its lease was released in good order and the group has no suspects, claim takes
-- that lease directly. It evaluates as few expressions as possible: plpgsql prepares each one anew
-- in each transaction. It does not wait for the disk, because losing a claim in a server crash is
-- harmless.
CREATE OR REPLACE FUNCTION tidemark.claim(p_group text, p_owner text, p_cursor text, p_limit integer, p_ttl interval,
    p_steps integer DEFAULT 4096,
        OUT campaign_ids text[], OUT generations bigint[], OUT checkpoints bigint[], OUT next_cursor text,
            OUT next_expiry timestamptz, OUT crashed_ids text[])
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    only_id text;
    alone boolean;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    IF p_cursor = '' AND p_limit > 1 THEN
        SELECT o.campaign_id, NOT EXISTS (
                SELECT FROM tidemark.outbox n WHERE n.consumer_group = p_group AND n.campaign_id > o.campaign_id
                    ORDER BY n.consumer_group, n.campaign_id LIMIT 1
            ) AND NOT EXISTS (
                SELECT FROM tidemark.pauses p WHERE p.scope = 'group' AND p.consumer_group = p_group AND p.name = ''
                    AND p.expires_at > clock_timestamp()
            ) AND NOT EXISTS (
                SELECT FROM tidemark.crashes c WHERE c.consumer_group = p_group AND cardinality(c.owners) > 0
            )
        INTO only_id, alone
        FROM (SELECT o.campaign_id FROM tidemark.outbox o WHERE o.consumer_group = p_group
            ORDER BY o.consumer_group, o.campaign_id LIMIT 1) o;
        IF NOT FOUND THEN
            campaign_ids := '{}'; generations := '{}'; checkpoints := '{}'; crashed_ids := '{}'; next_cursor := '';
            RETURN;
        ELSIF alone THEN
            UPDATE tidemark.leases l SET owner = p_owner, generation = l.generation + 1,
                expires_at = clock_timestamp() + p_ttl
            FROM (
                SELECT l.ctid AS place FROM tidemark.leases l
                WHERE l.consumer_group = p_group AND l.campaign_id BETWEEN only_id AND only_id
                    AND l.expires_at = '-infinity'
                ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
                FOR UPDATE SKIP LOCKED
            ) f
            WHERE l.ctid = f.place
            RETURNING ARRAY[l.campaign_id], ARRAY[l.generation], ARRAY[l.checkpoint], '', '{}'
                INTO campaign_ids, generations, checkpoints, next_cursor, crashed_ids;
            IF FOUND THEN
                RETURN;
            END IF;
        END IF;
    END IF;
    SELECT a.campaign_ids, a.generations, a.checkpoints, a.next_cursor, a.next_expiry, a.crashed_ids
        INTO campaign_ids, generations, checkpoints, next_cursor, next_expiry, crashed_ids
    FROM tidemark.claim_around(p_group, p_owner, p_cursor, p_limit, p_ttl, p_steps) AS a;
END
$$;

-- claim_recent is a claim that looks only at the campaigns of the newest events and at p_known. So
-- it does not step over dead rows, which the journal does not have (docs/adr/0020). It reads up to
-- 1024 events after the position p_since (0: the newest). The next claim goes on at next_since: the
-- first gap, whose append may commit later, but at most 256 positions back. known_ids are campaigns
-- that have work but were not claimed: give them to the next claim. It also looks at the next p_turn
-- campaigns of the journal after p_after, so that nothing is missed; next_after is '' after the last
-- one. next_cursor is '' if nothing else can be claimed now. dead is about how many rows of the
-- outbox vacuum has yet to remove.
CREATE OR REPLACE FUNCTION tidemark.claim_recent(p_group text, p_owner text, p_since bigint, p_known text[],
    p_after text, p_turn integer, p_limit integer, p_ttl interval, OUT campaign_ids text[], OUT generations bigint[],
    OUT checkpoints bigint[], OUT next_cursor text, OUT next_expiry timestamptz, OUT crashed_ids text[],
    OUT next_since bigint, OUT known_ids text[], OUT next_after text, OUT dead bigint)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    far CONSTANT timestamptz := at + p_ttl + interval '1 s';
    fallen CONSTANT text[] := tidemark.fallen(p_group);
    newest CONSTANT bigint := pg_sequence_last_value('tidemark.journal_position');
    idle_ids text[];
    new_ids text[];
    more boolean;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    next_after := p_after;
    dead := pg_stat_get_dead_tuples('tidemark.outbox'::regclass);
    IF EXISTS (SELECT FROM tidemark.pauses p WHERE p.scope = 'group' AND p.consumer_group = p_group AND p.name = ''
        AND p.expires_at > at) THEN
        campaign_ids := '{}'; generations := '{}'; checkpoints := '{}'; crashed_ids := '{}';
        next_cursor := ''; next_since := p_since; known_ids := p_known;
        RETURN;
    END IF;
    WITH RECURSIVE others AS (
        SELECT p_after COLLATE "C" AS campaign_id, 0 AS n
        UNION ALL
        SELECT f.campaign_id, o.n + 1
        FROM others o CROSS JOIN LATERAL (
            SELECT j.campaign_id FROM tidemark.journal j WHERE j.campaign_id > o.campaign_id
            ORDER BY j.campaign_id LIMIT 1
        ) f
        WHERE o.n < p_turn
    ), recent AS MATERIALIZED (
        SELECT r.campaign_id, r.position, r.position - row_number() OVER (ORDER BY r.position) AS before
        FROM (
            SELECT j.campaign_id, j.position FROM tidemark.journal j
            WHERE j.position > CASE p_since WHEN 0 THEN newest - 1024 ELSE p_since END ORDER BY j.position LIMIT 1024
        ) r
    ), named AS (
        SELECT u.campaign_id, min(u.position) AS position
        FROM (
            SELECT r.campaign_id, r.position FROM recent r UNION ALL SELECT * FROM unnest(p_known) WITH ORDINALITY
            UNION ALL SELECT o.campaign_id, 9223372036854775807 FROM others o WHERE o.n > 0
        ) u GROUP BY u.campaign_id
    ), waiting AS (
        SELECT n.campaign_id, n.position, l.expires_at
        FROM named n
        LEFT JOIN LATERAL (
            SELECT l.checkpoint, tidemark.lease_ends(l.owner, l.expires_at, fallen, far) AS expires_at
            FROM tidemark.leases l
            WHERE l.consumer_group = p_group AND l.campaign_id BETWEEN n.campaign_id AND n.campaign_id
            ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
        ) l ON true
        CROSS JOIN LATERAL (
            SELECT FROM tidemark.outbox o WHERE o.consumer_group = p_group AND o.campaign_id = n.campaign_id
                AND o.seq > coalesce(l.checkpoint, 0) LIMIT 1
        ) o
    )
    SELECT coalesce(array_agg(w.campaign_id ORDER BY w.position) FILTER (WHERE w.expires_at <= at), '{}'),
        coalesce(array_agg(w.campaign_id ORDER BY w.position) FILTER (WHERE w.expires_at IS NULL), '{}'),
        coalesce(array_agg(w.campaign_id) FILTER (WHERE w.expires_at > at AND w.expires_at < 'infinity'), '{}'),
        min(w.expires_at) FILTER (WHERE w.expires_at > at AND w.expires_at < 'infinity'),
        (SELECT greatest(p_since, coalesce(max(r.position), newest) - 256,
            max(r.position) FILTER (WHERE r.before = p_since)) FROM recent r), (SELECT count(*) = 1024 FROM recent),
        coalesce((SELECT o.campaign_id FROM others o WHERE o.n = p_turn), '')
    INTO idle_ids, new_ids, known_ids, next_expiry, next_since, more, next_after
    FROM waiting w;
    next_cursor := CASE WHEN more OR cardinality(idle_ids) + cardinality(new_ids) > p_limit THEN 'more' ELSE '' END;
    SELECT a.campaign_ids, a.generations, a.checkpoints, a.crashed_ids
        INTO campaign_ids, generations, checkpoints, crashed_ids
    FROM tidemark.acquire_leases(p_group, p_owner, idle_ids[:p_limit],
        new_ids[:greatest(p_limit - cardinality(idle_ids), 0)], p_ttl) AS a;
    known_ids := (array(SELECT f.campaign_id FROM unnest(idle_ids || new_ids) WITH ORDINALITY AS f (campaign_id, n)
        WHERE f.campaign_id <> ALL (campaign_ids) ORDER BY f.n) || known_ids)[:1024];
END
$$;

-- claimed_campaigns and claimed_checkpoints return the result of this session's last claim, if it
-- was kept in the settings. Statements pipelined behind a claim use them to find its campaigns
-- before the client has read the claim's result.
CREATE OR REPLACE FUNCTION tidemark.claimed_campaigns() RETURNS text[]
    LANGUAGE sql STABLE
    RETURN nullif(current_setting('tidemark.claimed_campaigns', true), '')::text[];

-- claimed_checkpoints returns the checkpoints of claimed_campaigns.
CREATE OR REPLACE FUNCTION tidemark.claimed_checkpoints() RETURNS bigint[]
    LANGUAGE sql STABLE
    RETURN nullif(current_setting('tidemark.claimed_checkpoints', true), '')::bigint[];
-- +goose StatementEnd

-- functions/conditions.sql
-- +goose StatementBegin
-- Conditions on the events of any campaign: docs/guides/conditions.md. For the locks see
-- docs/adr/0008.

-- query_keys returns the keys that a condition on a query locks exclusively. For each term it is a
-- key that every selected event touches. p_terms is the result of tag_terms.
CREATE OR REPLACE FUNCTION tidemark.query_keys(p_query jsonb, p_terms text[]) RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    keys bigint[] := '{}';
BEGIN
    IF p_terms IS NOT NULL THEN
        FOR n IN 1 .. cardinality(p_terms) BY 2 LOOP
            keys := keys || tidemark.tag_key(p_terms[n], p_terms[n + 1]);
        END LOOP;
        RETURN keys;
    END IF;
    RETURN array(
        SELECT k.key
        FROM tidemark.query_terms(p_query) AS t
        CROSS JOIN LATERAL (
            SELECT tidemark.tag_key(CASE WHEN cardinality(t.tags) > 1 THEN tidemark.rarest_tag(t.tags)
                ELSE t.tags[1] END, t.event_type) WHERE t.tags <> '{}'
            UNION ALL SELECT tidemark.type_key(t.event_type) WHERE t.tags = '{}' AND t.event_type IS NOT NULL
            UNION ALL SELECT tidemark.lock_key(32006, bucket) FROM generate_series(0, 63) AS bucket
                WHERE t.tags = '{}' AND t.event_type IS NULL
        ) AS k (key));
END
$$;

-- require_fresh_snapshot fails unless the transaction's snapshot shows all committed events after
-- p_after. It serves REPEATABLE READ and SERIALIZABLE, which do not see commits after the
-- transaction's first statement. The snapshot is fresh if it shows every position handed out since
-- p_after, or if no transaction has committed that the snapshot considers running or does not know.
CREATE OR REPLACE FUNCTION tidemark.require_fresh_snapshot(p_after bigint) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    last CONSTANT bigint := coalesce(pg_sequence_last_value('tidemark.journal_position'), 0);
    xid bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    fresh boolean;
BEGIN
    IF last - p_after <= 10000 THEN
        SELECT count(*) >= last - p_after INTO fresh FROM tidemark.journal j WHERE j.position > p_after
            AND j.position <= last;
    END IF;
    IF fresh THEN
        RETURN;
    END IF;
    fresh := NOT EXISTS (SELECT FROM pg_snapshot_xip(pg_current_snapshot()) AS x (xid)
        WHERE pg_xact_status(x.xid) = 'committed');
    WHILE fresh LOOP
        BEGIN
            fresh := coalesce(pg_xact_status(xid::text::xid8), 'committed') <> 'committed';
            xid := xid + 1;
        EXCEPTION WHEN invalid_parameter_value THEN -- no transaction has this xid yet
            RETURN;
        END;
    END LOOP;
    RAISE EXCEPTION 'the transaction''s snapshot is older than what others have committed, so it cannot tell whether the condition holds'
        USING ERRCODE = '40001', HINT =
            'retry the transaction, with the conditional append as its first statement, or under READ COMMITTED';
END
$$;

-- lock_one is lock_keys for one event and a condition of few terms (p_terms from tag_terms), with
-- expressions and one query. It returns false and locks nothing if there were too many locks on
-- tags, or if a lock is not available within 300 ms.
CREATE OR REPLACE FUNCTION tidemark.lock_one(p_event jsonb, p_terms text[], p_campaign_id text) RETURNS boolean
    LANGUAGE plpgsql
    SET lock_timeout = '300ms'
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    type CONSTANT text := p_event ->> 'type';
    tags CONSTANT integer := CASE
        WHEN jsonb_typeof(p_event -> 'tags') = 'array' THEN jsonb_array_length(p_event -> 'tags') ELSE 0 END;
    held CONSTANT integer := coalesce(nullif(current_setting('tidemark.tags_locked', true), ''),
        '0')::integer + 2 * tags + cardinality(p_terms) / 2;
    shared bigint[] := ARRAY[tidemark.type_key(type)];
    exclusive bigint[] := '{}';
BEGIN
    IF held > 64 THEN
        RETURN false;
    END IF;
    FOR n IN 0 .. tags - 1 LOOP
        shared := shared || tidemark.tag_key(p_event -> 'tags' ->> n,
            NULL) || tidemark.tag_key(p_event -> 'tags' ->> n, type);
    END LOOP;
    FOR n IN 1 .. cardinality(p_terms) BY 2 LOOP
        exclusive := exclusive || tidemark.tag_key(p_terms[n], p_terms[n + 1]);
        shared := shared || tidemark.lock_key(32008, exclusive[(n + 1) / 2] & 63);
    END LOOP;
    -- Take the exclusive lock on a key first: upgrading a shared lock can deadlock.
    PERFORM CASE WHEN k.n > cardinality(shared) THEN pg_advisory_xact_lock(k.key)::text
        ELSE pg_advisory_xact_lock_shared(k.key)::text END
    FROM (SELECT u.key, u.n FROM unnest(shared || exclusive) WITH ORDINALITY AS u (key, n)
        ORDER BY u.key, u.n DESC) AS k;
    PERFORM set_config('tidemark.tags_locked', held::text, true);
    RETURN tidemark.lock_campaign(p_campaign_id);
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$$;

-- all_before reports whether the events of batches are in the journal already, by their ids. It raises TM003 for
-- some of them, and TM014 for an archived campaign.
CREATE OR REPLACE FUNCTION tidemark.all_before(p_batches jsonb) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    n bigint;
    known bigint;
BEGIN
    PERFORM tidemark.check_types(b.batch ->> 'campaign_id', b.batch -> 'events')
    FROM jsonb_array_elements(p_batches) AS b (batch);
    PERFORM tidemark.refuse_archived(b.batch ->> 'campaign_id', h.metadata)
    FROM jsonb_array_elements(p_batches) AS b (batch) CROSS JOIN LATERAL (
        SELECT j.event_version, j.metadata FROM tidemark.journal j WHERE j.campaign_id = b.batch ->> 'campaign_id'
        ORDER BY j.seq DESC LIMIT 1
    ) AS h WHERE h.event_version = 0;
    SELECT count(*), count(j.seq) INTO n, known
    FROM jsonb_array_elements(p_batches) AS b (batch)
    CROSS JOIN LATERAL jsonb_array_elements(b.batch -> 'events') AS e (event)
    LEFT JOIN LATERAL tidemark.find_event(b.batch ->> 'campaign_id', (e.event ->> 'id')::uuid) AS j ON true;
    IF known > 0 AND known < n THEN
        RAISE EXCEPTION 'append: % of its % events are in the journal already, the others are new', known, n
            USING ERRCODE = 'TM003', HINT = 'repeat an append with exactly the events it had at first';
    END IF;
    RETURN known > 0;
END
$$;

-- refuse_match raises TM020 for an event that matches a condition. It never returns.
CREATE OR REPLACE FUNCTION tidemark.refuse_match(p_position bigint, p_campaign_id text, p_seq bigint, p_type text,
    p_item integer, p_after bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'event % of campaign % (%) at position % matches item % of the condition',
        p_seq, left(p_campaign_id, 64), p_type, p_position, p_item
        USING ERRCODE = 'TM020', HINT = 'read the new events, decide again, append again',
            DETAIL = jsonb_build_object('position', p_position, 'campaign', p_campaign_id, 'seq', p_seq, 'type', p_type,
                'item', p_item, 'after', p_after)::text;
END
$$;

-- append_if is append_all on the condition that no event after a position matches a query.
-- p_condition is {"failIfEventsMatch": query, "after": position} with an optional "seen": later
-- positions that do not count.
-- It refuses positions beyond the end of the journal: such a caller read them from another journal,
-- or from one that lost data since, and would miss the events that get those positions here. With a
-- "history", that of tidemark.history before the read, it also refuses positions up to which the journal
-- may have other events by now. Events that are in the journal already are returned with their places,
-- whatever the condition.
-- Locks come first: a concurrent append of an event that the query selects has either committed,
-- and is visible, or waits. The check is a later statement, which has a snapshot of its own under
-- READ COMMITTED. With p_keep a conflicting event is not an error: it is returned as the only row,
-- with a NULL event_id. The locks stay, so the caller can decide again without another append in
-- between. It is long: with one client, each further function that it called would add 8 to 17 µs to 440.
CREATE OR REPLACE FUNCTION tidemark.append_if(p_batches jsonb, p_condition jsonb, p_keep boolean DEFAULT false)
    RETURNS TABLE (campaign_id text, seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    query CONSTANT jsonb := p_condition -> 'failIfEventsMatch';
    after CONSTANT bigint := CASE WHEN p_condition ->> 'after' IS NULL THEN 0
        WHEN p_condition ->> 'after' ~ '^-?[0-9]{1,18}$' THEN (p_condition ->> 'after')::bigint
        WHEN p_condition ->> 'after' ~ '^-?[0-9]{19}$' THEN least(greatest((p_condition ->> 'after')::numeric,
            -9223372036854775808), 9223372036854775807)::bigint END;
    history CONSTANT text := coalesce(p_condition ->> 'history', '');
    terms CONSTANT text[] := tidemark.tag_terms(query);
    single CONSTANT boolean := jsonb_typeof(p_batches) = 'array' AND jsonb_array_length(p_batches) = 1;
    campaign CONSTANT text := p_batches -> 0 ->> 'campaign_id'; -- if single
    expect CONSTANT bigint := CASE WHEN p_batches -> 0 ->> 'expect' ~ '^-?[0-9]{1,18}$'
        THEN (p_batches -> 0 ->> 'expect')::bigint END; -- if single
    events CONSTANT jsonb := CASE WHEN single
        AND jsonb_typeof(p_batches -> 0 -> 'events') = 'array' THEN p_batches -> 0 -> 'events'
        ELSE jsonb_path_query_array(p_batches, '$[*].events[*]') END;
    last_position CONSTANT bigint := coalesce(pg_sequence_last_value('tidemark.journal_position'), 0);
    last_known bigint := after;
    seen bigint[] := '{}';
    taken boolean;
    known boolean := false;
    conflict record;
BEGIN
    IF NOT single OR NOT coalesce((p_batches -> 0) - '{campaign_id,events,expect}'::text[] = '{}'
        AND jsonb_typeof(p_batches -> 0 -> 'events') = 'array'
        AND jsonb_typeof(p_batches -> 0 -> 'campaign_id') = 'string'
        AND (expect IS NOT NULL OR p_batches -> 0 ->> 'expect' IS NULL)
        AND jsonb_array_length(events) <= (tidemark.append_limits())[2] AND octet_length(campaign) BETWEEN 1
            AND (tidemark.append_limits())[1], false) THEN
        taken := tidemark.check_batches(p_batches);
    END IF;
    IF coalesce(jsonb_typeof(p_condition), 'null') <> 'object'
        OR p_condition - '{failIfEventsMatch,after,seen,history}'::text[] <> '{}' OR after IS NULL
        OR p_condition ? 'seen' AND NOT coalesce(jsonb_path_match(p_condition, 'strict $.seen.type() == "array"
            && !exists($.seen[*] ? (@.type() != "number" || @.floor() != @ || @ > 9223372036854775807))'), false) THEN
        RAISE EXCEPTION 'condition %: it must be an object of "failIfEventsMatch", "after", "seen" and "history", with positions as integers',
            left(coalesce(p_condition::text, 'NULL'), 256)
            USING ERRCODE = 'TM004';
    ELSIF coalesce(events, '[]') = '[]' THEN
        RAISE EXCEPTION 'append: there are no events' USING ERRCODE = 'TM004',
            HINT = 'a condition alone decides nothing: append what was decided';
    END IF;
    IF p_condition ? 'seen' THEN
        seen := array(SELECT jsonb_array_elements_text(p_condition -> 'seen')::bigint);
        last_known := greatest(after, (SELECT max(position) FROM unnest(seen) AS s (position)));
    END IF;
    IF after < 0 OR history = '' AND last_known > last_position THEN
        RAISE EXCEPTION 'condition: it knows position %, the journal goes from 1 to %', CASE WHEN after < 0 THEN after
            ELSE last_known END, last_position
            USING ERRCODE = 'TM004', HINT =
                'read again and decide again: "after" is a position that tidemark.read or tidemark.read_floor answered, or 0',
                DETAIL = jsonb_build_object('known', CASE WHEN after < 0 THEN after
                    ELSE last_known END, 'last', last_position)::text;
    END IF;
    IF NOT single OR terms IS NULL OR jsonb_array_length(events) > 1
        OR NOT tidemark.lock_one(events -> 0, terms, campaign) THEN
        taken := tidemark.lock_keys(tidemark.touched_types(events), tidemark.touched_tags(events),
            tidemark.query_keys(query, terms),
            array(SELECT DISTINCT b ->> 'campaign_id' FROM jsonb_array_elements(p_batches) AS b));
    END IF;

    IF jsonb_path_exists(events, '$[*].id') THEN
        known := tidemark.all_before(p_batches);
    END IF;
    IF NOT known AND history <> '' AND (last_known > last_position OR history IS DISTINCT FROM tidemark.history())
        AND tidemark.resume(last_known, history) < last_known THEN
        RAISE EXCEPTION 'condition: it knows the journal up to %, which may have other events up to there by now',
            last_known || '@' || left(history, 64)
            USING ERRCODE = 'TM004', HINT = 'read again and decide again: a failover, a restore or a crash has taken '
                'commits, or it was read from another journal',
                DETAIL = jsonb_build_object('known', last_known, 'history', left(history, 64))::text;
    END IF;
    IF NOT known THEN
        -- Usually nothing matches, which this finds without the rest of query_matches.
        IF cardinality(terms) = 2 THEN
            PERFORM FROM tidemark.event_tags g WHERE g.tag = terms[1] AND g.event_type = terms[2]
                AND g.position > after AND g.position <> ALL (seen)
            ORDER BY g.tag, g.event_type, g.position LIMIT 1;
        ELSIF terms IS NOT NULL THEN
            PERFORM FROM generate_series(1, cardinality(terms), 2) AS t (n)
            CROSS JOIN LATERAL (
                SELECT FROM tidemark.event_tags g WHERE g.tag = terms[t.n] AND g.event_type = terms[t.n + 1]
                    AND g.position > after AND g.position <> ALL (seen)
                ORDER BY g.tag, g.event_type, g.position LIMIT 1
            ) AS m LIMIT 1;
        END IF;
        IF terms IS NULL OR FOUND THEN
            SELECT m.position, m.item, j.campaign_id, j.seq, j.event_type INTO conflict
            FROM tidemark.query_matches(query, after, 9223372036854775807, 1, seen) AS m
            -- With an equality the planner would drop the ORDER BY and could choose another index.
            CROSS JOIN LATERAL (SELECT * FROM tidemark.journal j WHERE j.position BETWEEN m.position AND m.position
                ORDER BY j.position LIMIT 1) AS j;
            IF FOUND AND p_keep THEN
                RETURN QUERY SELECT conflict.campaign_id, conflict.seq, conflict.position, NULL::uuid, NULL::boolean;
                RETURN;
            ELSIF FOUND THEN
                PERFORM tidemark.refuse_match(conflict.position, conflict.campaign_id, conflict.seq,
                    conflict.event_type, conflict.item, after);
            END IF;
        END IF;
        IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
            PERFORM tidemark.require_fresh_snapshot(after);
        END IF;
    END IF;
    IF single AND current_setting('transaction_isolation') = 'read committed' THEN -- the shortest path
        -- Pass only variables: with expressions Postgres planned each call again.
        RETURN QUERY SELECT campaign, a.* FROM tidemark.append_rows(campaign, events, expect) AS a;
    ELSE
        RETURN QUERY SELECT * FROM tidemark.append_all_rows(p_batches);
    END IF;
END
$$;

-- append_if with text serves calls with a literal or an untyped parameter, as append does.
CREATE OR REPLACE FUNCTION tidemark.append_if(p_batches text, p_condition text, p_keep boolean DEFAULT false)
    RETURNS TABLE (campaign_id text, seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE sql
BEGIN ATOMIC
    SELECT * FROM tidemark.append_if(tidemark.parsed_json(p_batches), tidemark.parsed_json(p_condition), p_keep);
END;
-- +goose StatementEnd

-- functions/copies.sql
-- +goose StatementBegin
-- A copy of the database may lack values of sequences (logical replication does not copy them) and rows
-- that migrations insert (a restore of some tables). Then positions and ids are handed out twice.

-- greatest_position returns the greatest position that anything has, and what has it. Rows of event_tags
-- are in the order of appends, so it reads the last pages of that table, with p_all the whole table. It
-- sees no events: a position tells nothing.
CREATE OR REPLACE FUNCTION tidemark.greatest_position(p_all boolean, OUT "position" bigint, OUT held_by text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    tags CONSTANT tid := format('(%s,0)', greatest(0, pg_relation_size('tidemark.event_tags')
        / current_setting('block_size')::integer - 8))::tid;
BEGIN
    SELECT p.place, p.what INTO "position", held_by FROM (
        (SELECT j.position AS place, 'an event of the journal' AS what FROM tidemark.journal j
            ORDER BY j.position DESC LIMIT 1)
        UNION ALL (SELECT r.position, format('reader %s of %s', r.publisher, r.topic) FROM tidemark.readers r
            ORDER BY r.position DESC LIMIT 1)
        UNION ALL (SELECT a.last_position, format('archive %s', a.object) FROM tidemark.archives a
            ORDER BY a.last_position DESC LIMIT 1)
        UNION ALL SELECT max(t.position), 'a row of tidemark.event_tags' FROM tidemark.event_tags t
            WHERE NOT p_all AND t.ctid >= tags
        UNION ALL SELECT max(t.position), 'a row of tidemark.event_tags' FROM tidemark.event_tags t WHERE p_all
        UNION ALL SELECT d.next_seq - 1, format('a failed key of %s', p.name) FROM tidemark.projections p
            CROSS JOIN LATERAL (SELECT d.next_seq FROM tidemark.failed d WHERE d.projection = p.name
                AND d.status IN ('failed', 'dead') ORDER BY d.next_seq DESC LIMIT 1) d
            WHERE p.scope = 'journal'
    ) AS p WHERE p.place IS NOT NULL ORDER BY p.place DESC LIMIT 1;
    "position" := coalesce("position", 0);
END
$$;

-- hold_back reports whether the sequence of positions is behind, and then puts it back before the first
-- position of the journal, so that each append is refused until repair_copy has raised it. It changes
-- nothing in a sound database, since the sequence is read after the positions. Roles that write places of
-- readers may not call it: they could stop all appends.
CREATE OR REPLACE FUNCTION tidemark.hold_back() RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    most CONSTANT bigint := (tidemark.greatest_position(false)).position;
    last CONSTANT bigint := coalesce(pg_sequence_last_value('tidemark.journal_position'), 0);
    first bigint;
BEGIN
    IF most <= last THEN
        RETURN false;
    END IF;
    SELECT j.position INTO first FROM tidemark.journal j ORDER BY j.position LIMIT 1;
    PERFORM setval('tidemark.journal_position', coalesce(first - 1, 0), first IS NOT NULL);
    RETURN true;
END
$$;

-- copy_faults returns what a copy of the database lacks. It reads a sequence after what it numbers, so
-- work that goes on meanwhile makes no fault.
CREATE OR REPLACE FUNCTION tidemark.copy_faults(p_all boolean) RETURNS TABLE (object text, fault text, needs bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    most CONSTANT record := tidemark.greatest_position(p_all);
    s record;
BEGIN
    FOR s IN SELECT 'tidemark.journal_position' AS name, most.position AS most, most.held_by AS holder
        UNION ALL SELECT pg_get_serial_sequence(c.oid::regclass::text, a.attname), NULL, c.oid::regclass::text
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace = 'tidemark'::regnamespace AND c.relkind = 'r' AND a.attidentity <> ''
    LOOP
        IF s.most IS NULL THEN
            EXECUTE format('SELECT coalesce(max(t.id), 0) FROM %s t', s.holder) INTO s.most;
        END IF;
        IF s.most > coalesce(pg_sequence_last_value(s.name), 0) THEN
            object := s.name;
            fault := format('stands at %s, and %s has %s', coalesce(pg_sequence_last_value(s.name), 0), s.holder, s.most);
            needs := s.most;
            RETURN NEXT;
        END IF;
    END LOOP;
    needs := NULL;
    fault := 'has no row';
    IF NOT EXISTS (SELECT FROM tidemark.limits) THEN
        object := 'tidemark.limits';
        RETURN NEXT;
    END IF;
    IF NOT EXISTS (SELECT FROM tidemark.operator_log_head) THEN
        object := 'tidemark.operator_log_head';
        RETURN NEXT;
    END IF;
END
$$;

-- repair_copy raises sequences that are behind above all that they number, and inserts rows that are
-- missing: limits as appends have them, and the head of the log of operators at its last link. It returns
-- what it has repaired. Stop programs that append before: it does not wait for them.
CREATE OR REPLACE FUNCTION tidemark.repair_copy() RETURNS TABLE (object text, fault text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    l CONSTANT integer[] := tidemark.append_limits();
    f record;
BEGIN
    FOR f IN SELECT * FROM tidemark.copy_faults(true) LOOP
        IF f.needs >= 1::bigint << 47 THEN
            RAISE EXCEPTION '% %: to raise it so far would leave too few numbers', f.object, f.fault
                USING ERRCODE = 'TM004', HINT = 'correct that row first: no append has got so far';
        ELSIF f.needs IS NOT NULL THEN
            PERFORM setval(f.object::regclass, f.needs);
        ELSIF f.object = 'tidemark.limits' THEN
            INSERT INTO tidemark.limits (campaign_id_bytes, events_per_call, payload_bytes, metadata_bytes, tags,
                tag_bytes, payload_depth, campaigns_per_transaction)
            VALUES (l[1], l[2], l[3], l[4], l[5], l[6], l[7], l[8]) ON CONFLICT DO NOTHING;
        ELSE
            INSERT INTO tidemark.operator_log_head (link, hash, pruned, pruned_hash)
            SELECT coalesce(n.link, 0), coalesce(n.hash, ''), coalesce(o.link, 0), coalesce(o.hash, '')
            FROM (SELECT max(k.link) AS newest, min(k.link) AS oldest FROM tidemark.operator_log k) k
                LEFT JOIN tidemark.operator_log n ON n.link = k.newest
                LEFT JOIN tidemark.operator_log o ON o.link = k.oldest
            ON CONFLICT DO NOTHING;
        END IF;
        object := f.object;
        fault := f.fault;
        RETURN NEXT;
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION tidemark.repair_copy FROM PUBLIC;
-- +goose StatementEnd

-- functions/crashes.sql
-- +goose StatementBegin
-- Owners of leases that have died, and the campaigns at which they did.

-- stranded reports whether a lease outlives its owner's TTL, or its owner is dead. Callers ask only
-- about leases that run longer than their own would, so almost never. A stranded lease means that
-- the server's clock has gone back. The old clock set the expiry, so waiting for it could take
-- hours.
CREATE OR REPLACE FUNCTION tidemark.stranded(p_owner text, p_expires_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN p_owner <> 'paused' AND NOT EXISTS (
        SELECT FROM tidemark.workers w WHERE w.owner = p_owner AND w.seen_at BETWEEN clock_timestamp() - w.lease_ttl
            AND clock_timestamp() + interval '1 s'
            AND p_expires_at <= clock_timestamp() + w.lease_ttl + interval '1 s');
END
$$;

-- lease_ends returns when a lease ends for a claim: long ago if its owner is fallen or it is stranded, which is asked
-- only of leases that end after p_far. It is inlined.
CREATE OR REPLACE FUNCTION tidemark.lease_ends(p_owner text, p_expires_at timestamptz, p_fallen text[],
    p_far timestamptz) RETURNS timestamptz
    LANGUAGE sql STABLE
    RETURN CASE WHEN p_owner = ANY (p_fallen) OR p_expires_at > p_far AND p_owner <> 'paused'
        AND tidemark.stranded(p_owner, p_expires_at) THEN '-infinity' ELSE p_expires_at END;

-- fallen returns the owners of a group that have probably died at a suspect campaign, or hang.
-- These owners had marked that they worked on a campaign under which a process had died, and were
-- last seen longer ago than a sixth of their lease TTL, at least 3 s. Their leases are not waited
-- for. An owner that is alive after all fails at the fence, and removes itself from the list of the
-- dead with its next beat.
CREATE OR REPLACE FUNCTION tidemark.fallen(p_group text) RETURNS text[]
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Almost always an index without entries.
    IF NOT EXISTS (SELECT FROM tidemark.crashes c WHERE c.consumer_group = p_group AND cardinality(c.owners) > 0) THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(
        SELECT w.owner FROM tidemark.crashes c CROSS JOIN LATERAL jsonb_object_keys(c.marks) AS m (owner)
        CROSS JOIN LATERAL (SELECT * FROM tidemark.workers w WHERE w.owner = m.owner OFFSET 0) w
        WHERE c.consumer_group = p_group AND cardinality(c.owners) > 0
            AND w.seen_at < clock_timestamp() - greatest(w.lease_ttl / 6, interval '3 s'));
END
$$;

-- note_crashes records the owners that left campaigns behind, and returns the campaigns whose owner
-- it considers dead. The caller has locked the leases. It does not count
--   - an owner that was seen after half of the lease's last life: an owner renews three times in a
--     life and is recorded four times, so one that is seen without renewing is alive and has lost
--     or dropped the lease;
--   - an owner without a record: it stopped in good order, or is no worker at all ('paused');
--   - leases from before the server started: a restart of the server affects all of them.
-- The list starts over when the campaign has moved on, or when the last death is an hour old. A
-- deadly event kills again as soon as it is retried, which is within a lease's life and the time of
-- a restart. Owners that are alive remove themselves from the list (see Keeper.Beat).
CREATE OR REPLACE FUNCTION tidemark.note_crashes(p_group text, p_campaign_ids text[], p_checkpoints bigint[],
    p_owners text[], p_expired timestamptz[], p_ttl interval) RETURNS text[]
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    noted text[];
BEGIN
    WITH dead AS MATERIALIZED (
        SELECT u.campaign_id, u.checkpoint, u.owner
        FROM (SELECT * FROM unnest(p_campaign_ids, p_checkpoints, p_owners, p_expired) AS u (campaign_id, checkpoint,
            owner, expired) ORDER BY 1) u
        CROSS JOIN LATERAL (SELECT w.seen_at FROM tidemark.workers w WHERE w.owner = u.owner OFFSET 0) w
        WHERE w.seen_at <= u.expired - p_ttl / 2 AND u.expired - p_ttl >= pg_postmaster_start_time()
    ), written AS (
        INSERT INTO tidemark.crashes AS c (consumer_group, campaign_id, checkpoint, owners)
        SELECT p_group, d.campaign_id, d.checkpoint, ARRAY[d.owner] FROM dead d
        ON CONFLICT (consumer_group, campaign_id) DO UPDATE SET (checkpoint, owners, marks, at) = (
            SELECT excluded.checkpoint, CASE WHEN i.same THEN array_remove(c.owners, excluded.owners[1])
                ELSE '{}' END || excluded.owners,
                CASE WHEN i.same THEN c.marks ELSE '{}' END, excluded.at
            FROM (SELECT c.checkpoint = excluded.checkpoint AND c.at > excluded.at - interval '1 hour' AS same) i)
        RETURNING c.campaign_id
    )
    SELECT coalesce(array_agg(w.campaign_id), '{}') INTO noted FROM written w;
    -- Prunes campaigns that moved on and crashed no more.
    DELETE FROM tidemark.crashes c WHERE c.ctid = ANY (ARRAY(
        SELECT o.ctid FROM tidemark.crashes o WHERE o.consumer_group = p_group
            AND o.at < clock_timestamp() - interval '1 day' LIMIT 1000 FOR UPDATE SKIP LOCKED));
    RETURN noted;
END
$$;
-- +goose StatementEnd

-- functions/erasure_events.sql
-- +goose StatementBegin
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
-- +goose StatementEnd

-- functions/erasure_fields.sql
-- +goose StatementBegin
-- What an erasure leaves of an event.

-- field_values returns what a path leads to in a document: of all elements where it leads through an array.
-- It has no SET, so that Postgres can make it a part of the query.
CREATE OR REPLACE FUNCTION tidemark.field_values(p_document jsonb, p_path text) RETURNS SETOF jsonb
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

-- holds reports whether a text is one of the values, has one after the sign of a tag, or has one of at
-- least 4 characters as words.
CREATE OR REPLACE FUNCTION tidemark.holds(p_text text, p_values text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT p_text = ANY (p_values) OR strpos(p_text, '=') > 0 AND substr(p_text, strpos(p_text, '=') + 1) = ANY (p_values)
        OR EXISTS (SELECT FROM unnest(p_values) AS v (value) WHERE length(v.value) >= 4
            AND tidemark.spoken(v.value) <> ''
            AND strpos(' ' || tidemark.spoken(p_text) || ' ', ' ' || tidemark.spoken(v.value) || ' ') > 0)
$$;

-- cut takes a field out of a document: of all elements where the path leads through an array.
CREATE OR REPLACE FUNCTION tidemark.cut(p_document jsonb, p_path text[]) RETURNS jsonb
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

-- without takes the texts, numbers and fields out of a document that hold one of the values, or puts
-- p_instead in the place of the texts and numbers.
CREATE OR REPLACE FUNCTION tidemark.without(p_document jsonb, p_values text[], p_instead jsonb DEFAULT NULL)
    RETURNS jsonb
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

-- subject_values returns the subjects, and the values of those that are tags.
CREATE OR REPLACE FUNCTION tidemark.subject_values(p_subjects text[]) RETURNS text[]
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
CREATE OR REPLACE FUNCTION tidemark.erased_form(p_event tidemark.journal, p_paths jsonb, p_values text[])
    RETURNS tidemark.journal
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

-- event_texts returns what an event says, in one document.
CREATE OR REPLACE FUNCTION tidemark.event_texts(p_event tidemark.journal) RETURNS jsonb
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_array(p_event.metadata, p_event.actor, p_event.aggregate_id, p_event.payload,
        (SELECT jsonb_agg(regexp_replace(tag, '^[^=]*=', '')) FROM unnest(p_event.tags) AS tag))
$$;

-- tells reports whether an event in the journal, as it is by now, has each word of a text.
CREATE OR REPLACE FUNCTION tidemark.tells(p_position bigint, p_text text) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM tidemark.journal j WHERE j.position = p_position
        AND string_to_array(tidemark.spoken(p_text), ' ')
            <@ string_to_array(tidemark.spoken(tidemark.event_texts(j)::text), ' '))
$$;
-- +goose StatementEnd

-- functions/erasure_traces.sql
-- +goose StatementBegin
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
-- +goose StatementEnd

-- functions/erasures.sql
-- +goose StatementBegin
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
-- +goose StatementEnd

-- functions/journal.sql
-- +goose StatementBegin
-- The journal as tables: it is append-only, is read up to a floor, and has histories.

-- find_event returns the event with an id, by one probe of journal_position_idx and one of
-- journal_given_id_idx. It is inlined.
-- The inner queries rule out other indexes, even while the planner believes the table is empty. Where
-- the hash has no statistics, the planner expects half a percent of the journal for = alone, and JIT.
CREATE OR REPLACE FUNCTION tidemark.find_event(p_campaign_id text, p_event_id uuid) RETURNS SETOF tidemark.journal
    LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
    SELECT e.* FROM (
        (SELECT * FROM tidemark.journal j
        WHERE j.position BETWEEN ('x' || right(p_event_id::text, 12))::bit(48)::bigint
            AND ('x' || right(p_event_id::text, 12))::bit(48)::bigint
        ORDER BY j.position LIMIT 1)
        UNION ALL
        (SELECT * FROM tidemark.journal j
        WHERE uuid_hash_extended(j.event_id, hashtextextended(j.campaign_id, 0))
                = uuid_hash_extended(p_event_id, hashtextextended(p_campaign_id, 0))
            AND uuid_hash_extended(j.event_id, hashtextextended(j.campaign_id, 0))
                <= uuid_hash_extended(p_event_id, hashtextextended(p_campaign_id, 0))
            AND uuid_hash_extended(j.event_id, hashtextextended(j.campaign_id, 0))
                >= uuid_hash_extended(p_event_id, hashtextextended(p_campaign_id, 0))
            AND substr(uuid_send(j.event_id), 11) <> substr(int8send(j.position), 3)
        OFFSET 0)
    ) AS e WHERE e.event_id = p_event_id AND e.campaign_id = p_campaign_id;
END;

-- begin_change lets the transaction change the journal until end_change.
CREATE OR REPLACE FUNCTION tidemark.begin_change(p_act text) RETURNS void
    LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO tidemark.journal_changes (xid, act) VALUES (pg_current_xact_id(), p_act);
END;
REVOKE ALL ON FUNCTION tidemark.begin_change FROM PUBLIC;

-- end_change ends what begin_change began.
CREATE OR REPLACE FUNCTION tidemark.end_change() RETURNS void
    LANGUAGE sql
BEGIN ATOMIC
    DELETE FROM tidemark.journal_changes c WHERE c.xid = pg_current_xact_id();
END;
REVOKE ALL ON FUNCTION tidemark.end_change FROM PUBLIC;

-- refuse_change lets tidemark.erase through (erasure_events.sql), which keeps an event's place,
-- type, id and times, and tidemark.archive and restore (archives.sql): an archive deletes events or
-- leaves stubs, with version 0, and a restore deletes stubs. Roles that do not own the tables may
-- not change them at all.
CREATE OR REPLACE FUNCTION tidemark.refuse_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    act CONSTANT text := (SELECT c.act FROM tidemark.journal_changes c WHERE c.xid = pg_current_xact_id());
BEGIN
    IF act IS NULL THEN
        NULL;
    ELSIF TG_TABLE_NAME = 'event_tags' THEN
        IF TG_OP = 'DELETE' AND act = 'erase' THEN
            RETURN OLD;
        END IF;
    ELSIF TG_OP = 'DELETE' AND TG_WHEN = 'BEFORE' THEN
        IF act IN ('archive', 'restore') THEN
            RETURN NULL;
        END IF;
    ELSIF TG_OP = 'DELETE' THEN -- the deleted events once a statement: an archive deletes thousands
        IF NOT EXISTS (SELECT FROM gone g WHERE (act = 'archive') IS DISTINCT FROM (g.event_version > 0)) THEN
            RETURN NULL;
        END IF;
    ELSIF TG_OP = 'UPDATE' THEN
        IF act = 'erase' AND (NEW.campaign_id, NEW.seq, NEW.position, NEW.event_id,
            NEW.event_type, NEW.event_version, NEW.intent, NEW.occurred_at, NEW.recorded_at) = (OLD.campaign_id, OLD.seq,
            OLD.position, OLD.event_id, OLD.event_type, OLD.event_version, OLD.intent, OLD.occurred_at, OLD.recorded_at)
            AND NEW.metadata ? '$erased'
            OR act = 'archive' AND NEW.event_version = 0
            AND (NEW.campaign_id, NEW.seq, NEW.position, NEW.event_id)
                = (OLD.campaign_id, OLD.seq, OLD.position, OLD.event_id)
        THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'tidemark.% is append-only: % is refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'TM009', HINT = 'append an event that corrects the earlier one';
END
$$;
CREATE OR REPLACE TRIGGER journal_no_update BEFORE UPDATE ON tidemark.journal
    FOR EACH ROW EXECUTE FUNCTION tidemark.refuse_change();
CREATE OR REPLACE TRIGGER journal_no_delete BEFORE DELETE ON tidemark.journal
    FOR EACH STATEMENT EXECUTE FUNCTION tidemark.refuse_change();
CREATE OR REPLACE TRIGGER journal_deleted AFTER DELETE ON tidemark.journal REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION tidemark.refuse_change();
CREATE OR REPLACE TRIGGER journal_no_truncate BEFORE TRUNCATE ON tidemark.journal
    FOR EACH STATEMENT EXECUTE FUNCTION tidemark.refuse_change();
CREATE OR REPLACE TRIGGER event_tags_no_update BEFORE UPDATE OR DELETE ON tidemark.event_tags
    FOR EACH ROW EXECUTE FUNCTION tidemark.refuse_change();
CREATE OR REPLACE TRIGGER event_tags_no_truncate BEFORE TRUNCATE ON tidemark.event_tags
    FOR EACH STATEMENT EXECUTE FUNCTION tidemark.refuse_change();

-- read_floor returns the highest position below which no append is in flight. Rows up to it that a
-- *later* statement selects are complete. Writers take a shared lock on the sequence's last value
-- before they call nextval, so the lowest such key is below every position that is not yet visible.
-- The order matters: read the last value first, then the locks, each with its own snapshot.
CREATE OR REPLACE FUNCTION tidemark.read_floor() RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    last_position bigint;
    lowest_writer bigint;
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION 'tidemark.read_floor needs the primary: a standby has the sequence ahead of the rows, and none of the locks'
            USING ERRCODE = 'TM012', HINT = 'read by position on the primary; campaigns can be read on a standby';
    END IF;
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'tidemark.read_floor needs READ COMMITTED: under % the rows below the floor may be newer than the snapshot',
            upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'TM008', HINT = 'read the journal by position outside of this transaction';
    END IF;
    SELECT last_value INTO last_position FROM tidemark.journal_position;
    SELECT min(((classid::bigint & 65535) << 32) | objid::bigint) INTO lowest_writer
    FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND (classid::bigint >> 16) = 32001 -- 0x7D01
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
    RETURN least(last_position, coalesce(lowest_writer, last_position));
END
$$;

-- instance identifies what a process may remember of the database: the history, and the start of the
-- server, before which another data directory may have been put in its place. It is NULL if keep_history has
-- not begun a history yet. On a standby it has the newest history that has arrived. It reads one row, and a
-- file of the server. Each page and each move of a place calls it, so it is one function with one statement.
CREATE OR REPLACE FUNCTION tidemark.instance() RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN (SELECT h.history || '/' || extract(epoch FROM pg_postmaster_start_time()) FROM tidemark.histories h
            ORDER BY h.number DESC LIMIT 1);
    END IF;
    RETURN (SELECT i.history || '/' || extract(epoch FROM pg_postmaster_start_time()) FROM tidemark.incarnation i
        WHERE i.one AND i.journal = 'tidemark.journal'::regclass
            AND i.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
            AND i.system_id = (SELECT c.system_identifier FROM pg_control_system() c));
END
$$;

-- history returns the history of instance.
CREATE OR REPLACE FUNCTION tidemark.history() RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN split_part(tidemark.instance(), '/', 1);
END
$$;

-- keep_history makes sure that the present history has begun, notes the writer floor, and returns the
-- instance. Workers and relays call it each second, and programs that hand out cursors when they read, in a
-- short transaction: others wait for the session that begins a history, 300 ms at most.
CREATE OR REPLACE FUNCTION tidemark.keep_history() RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET lock_timeout = '300ms' SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    made CONSTANT text := encode(substr(uuid_send(gen_random_uuid()), 9), 'hex');
    newest bigint;
BEGIN
    IF current_setting('transaction_read_only')::boolean THEN -- also on a standby
        RETURN tidemark.instance();
    END IF;
    IF tidemark.history() IS NULL THEN
        INSERT INTO tidemark.incarnation AS i
        SELECT true, made, c.system_identifier, d.oid, 'tidemark.journal'::regclass
        FROM pg_control_system() c CROSS JOIN pg_database d WHERE d.datname = current_database()
        ON CONFLICT (one) DO UPDATE SET history = excluded.history, system_id = excluded.system_id,
            database = excluded.database, journal = excluded.journal
        WHERE (i.system_id, i.database, i.journal) <> (excluded.system_id, excluded.database, excluded.journal);
        IF FOUND THEN
            IF current_setting('synchronous_commit') = 'off' THEN -- cursors must not survive their history
                PERFORM set_config('synchronous_commit', 'local', true);
            END IF;
            INSERT INTO tidemark.histories (number, history, position)
            SELECT coalesce(max(h.number), 0) + 1, made, coalesce(max(h.position), 0) FROM tidemark.histories h;
        END IF;
    END IF;
    SELECT h.number INTO newest FROM tidemark.histories h
    WHERE h.history = tidemark.history()
        AND h.noted_at NOT BETWEEN clock_timestamp() - interval '1 s' AND clock_timestamp()
    FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE tidemark.histories h SET position = f.floor, noted_at = clock_timestamp()
        FROM tidemark.read_floor() AS f (floor) WHERE h.number = newest AND h.position < f.floor;
    END IF;
    RETURN tidemark.instance();
END
$$;

-- resume returns the position from which a reader goes on that has seen the events of a history up to
-- p_position: that position, or an earlier one if the present journal may have other events up to it. A
-- history of '' stands for the present one. Nothing is known of a history that this database has not seen.
CREATE OR REPLACE FUNCTION tidemark.resume(p_position bigint, p_history text) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    last bigint;
BEGIN
    IF p_history NOT IN ('', tidemark.history()) IS NOT FALSE THEN
        SELECT h.position INTO last FROM tidemark.histories h WHERE h.history = p_history;
        last := coalesce(last, 0);
    END IF;
    RETURN (SELECT least(p_position, last, j.last_value) FROM tidemark.journal_position j);
END
$$;
-- +goose StatementEnd

-- functions/keys.sql
-- +goose StatementBegin
-- Keys that personal fields are sealed with.

-- end_key notes the id of a deleted key, and refuses a key whose id was noted.
CREATE OR REPLACE FUNCTION tidemark.end_key() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO tidemark.deleted_keys (id) VALUES (OLD.id) ON CONFLICT DO NOTHING;
        RETURN OLD;
    ELSIF EXISTS (SELECT FROM tidemark.deleted_keys d WHERE d.id = NEW.id) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER keys_end AFTER DELETE ON tidemark.keys FOR EACH ROW EXECUTE FUNCTION tidemark.end_key();
CREATE OR REPLACE TRIGGER keys_ended BEFORE INSERT ON tidemark.keys FOR EACH ROW EXECUTE FUNCTION tidemark.end_key();

-- wrapping_key returns the check value of a wrapping key, in base64, NULL if there is none. With p_check it
-- records that one unless there is one: it waits up to 10 s for a transaction that is recording one (SQLSTATE
-- 55P03). Only operators replace a check value.
CREATE OR REPLACE FUNCTION tidemark.wrapping_key(p_name text, p_check text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET lock_timeout = '10s' SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_check <> '' THEN
        INSERT INTO tidemark.wrapping_keys (name, check_value) VALUES (p_name, decode(p_check, 'base64'))
        ON CONFLICT (name) DO NOTHING;
    END IF;
    RETURN (SELECT translate(encode(w.check_value, 'base64'), E'\n', '')
        FROM tidemark.wrapping_keys w WHERE w.name = p_name);
END
$$;
REVOKE ALL ON FUNCTION tidemark.wrapping_key FROM PUBLIC;

-- trust_wrapping_key puts a check value in the place of what is recorded for a wrapping key. The log of
-- operators has each call: programs wrap by no other key of that name from then on.
CREATE OR REPLACE FUNCTION tidemark.trust_wrapping_key(p_name text, p_check text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO tidemark.wrapping_keys AS w (name, check_value) VALUES (p_name, decode(p_check, 'base64'))
    ON CONFLICT (name) DO UPDATE SET check_value = excluded.check_value, recorded_by = excluded.recorded_by,
        recorded_at = excluded.recorded_at;
    PERFORM tidemark.log_act(session_user, 'wrapping_key_recorded', '', '', '', '', 0,
        jsonb_build_object('name', p_name), '', 0, '');
END
$$;
REVOKE ALL ON FUNCTION tidemark.trust_wrapping_key FROM PUBLIC;

-- subject_keys returns the keys of subjects. p_keys is an array of objects with "subject", a hash in hex.
-- One that also has "id", "wrapped" (base64) and "wrapped_by" creates the key if the subject has none: it
-- waits for a transaction that is creating it. With "check", a hash in hex, it creates the key only while the
-- wrapping key has that check value. Keys are created in one order, so that two calls never deadlock. Appenders
-- have no other way to keys.
CREATE OR REPLACE FUNCTION tidemark.subject_keys(p_keys jsonb)
    RETURNS TABLE (subject text, id text, wrapped text, wrapped_by text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    IF jsonb_path_exists(p_keys, '$[*].id') THEN -- one that came back in a transaction with an old snapshot
        DELETE FROM tidemark.keys t USING tidemark.deleted_keys d WHERE t.id = d.id
            AND t.subject IN (SELECT decode(k ->> 'subject', 'hex') FROM jsonb_array_elements(p_keys) AS k);
    END IF;
    INSERT INTO tidemark.keys (id, subject, wrapped, wrapped_by)
    SELECT (k ->> 'id')::uuid, decode(k ->> 'subject', 'hex'), decode(k ->> 'wrapped', 'base64'), k ->> 'wrapped_by'
    FROM jsonb_array_elements(p_keys) AS k WHERE k ? 'id' AND (NOT k ? 'check' OR EXISTS (
        SELECT FROM tidemark.wrapping_keys w
        WHERE w.name = k ->> 'wrapped_by' AND encode(sha256(w.check_value), 'hex') = k ->> 'check'))
    ORDER BY k ->> 'subject'
    ON CONFLICT (subject) DO NOTHING;
    RETURN QUERY SELECT encode(s.subject, 'hex'), s.id::text, translate(encode(s.wrapped, 'base64'), E'\n', ''),
        s.wrapped_by
    FROM jsonb_array_elements(p_keys) AS k
        CROSS JOIN LATERAL (SELECT * FROM tidemark.keys t WHERE t.subject = decode(k ->> 'subject', 'hex') LIMIT 1) s
    WHERE NOT EXISTS (SELECT FROM tidemark.deleted_keys d WHERE d.id = s.id);
END
$$;
REVOKE ALL ON FUNCTION tidemark.subject_keys FROM PUBLIC;

-- forget_keys deletes the keys of an erasure's subjects and returns how many. What they have sealed cannot be
-- read any more.
CREATE OR REPLACE FUNCTION tidemark.forget_keys(p_erasure bigint, p_generation bigint, p_subjects text[]) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    n bigint;
BEGIN
    PERFORM tidemark.hold_erasure(p_erasure, p_generation);
    DELETE FROM tidemark.keys k
    USING (SELECT DISTINCT sha256(convert_to(s, 'UTF8')) AS subject FROM unnest(p_subjects) AS s) f
    WHERE k.subject = f.subject;
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM tidemark.count_erased(p_erasure, jsonb_build_object('keys', n));
    RETURN n;
END
$$;
REVOKE ALL ON FUNCTION tidemark.forget_keys FROM PUBLIC;

-- forget_key deletes the key with an id, such as one that does not open, and reports whether there was one.
-- What it has sealed is erased. Programs drop it from their memory, and the log of operators has the act.
CREATE OR REPLACE FUNCTION tidemark.forget_key(p_id uuid, p_actor text, p_reason text, p_way text DEFAULT '',
    p_token_id bigint DEFAULT 0, p_address text DEFAULT '') RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF coalesce(p_actor, '') = '' OR coalesce(p_reason, '') = '' THEN
        RAISE EXCEPTION 'the actor or the reason is missing'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'say who does it and why: it is written to the log';
    END IF;
    DELETE FROM tidemark.keys k WHERE k.id = p_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM nextval('tidemark.erased');
    PERFORM tidemark.log_act(p_actor, 'key_deleted', p_reason, '', '', '', 0,
        jsonb_build_object('request', jsonb_build_object('id', p_id)), p_way, p_token_id, p_address);
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION tidemark.forget_key FROM PUBLIC;

-- rewrap_keys puts keys that were wrapped anew in the place of those that p_before wraps, and returns how
-- many. The log of operators has each call: who overwrites keys can make what they seal unreadable.
CREATE OR REPLACE FUNCTION tidemark.rewrap_keys(p_ids uuid[], p_before text[], p_wrapped bytea[], p_by text)
    RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    n bigint;
BEGIN
    IF (cardinality(p_before), cardinality(p_wrapped)) IS DISTINCT FROM (cardinality(p_ids), cardinality(p_ids)) THEN
        RAISE EXCEPTION '% keys have % wrapping keys and % values', cardinality(p_ids), cardinality(p_before),
            cardinality(p_wrapped) USING ERRCODE = 'invalid_parameter_value', HINT = 'give one of each';
    END IF;
    UPDATE tidemark.keys k SET wrapped = w.wrapped, wrapped_by = p_by
    FROM unnest(p_ids, p_before, p_wrapped) AS w (id, before, wrapped) WHERE k.id = w.id AND k.wrapped_by = w.before;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n > 0 THEN
        PERFORM tidemark.log_act(session_user, 'keys_rewrapped', '', '', '', '', 0,
            jsonb_build_object('keys', n, 'wrapped_by', p_by), '', 0, '');
    END IF;
    RETURN n;
END
$$;
REVOKE ALL ON FUNCTION tidemark.rewrap_keys FROM PUBLIC;
-- +goose StatementEnd

-- functions/lag.sql
-- +goose StatementBegin
-- How far readers and groups are behind the journal. For the cost see status.sql.

-- reader_lag counts the events after a position that a reader takes: the lag of a publisher, and of a
-- projection across campaigns. p_takes is its filter, NULL for all events: types, intents, prefix of the
-- campaign, required tags, any_of these tags, and notices of erasures by what was erased. Archived
-- events count by the types in their objects. since is the time of the first of them. Up to p_most
-- events are read. If there are more, ten equal parts of the way are read from their starts and
-- extrapolated, and since is the time of the first event that may be one of them.
CREATE OR REPLACE FUNCTION tidemark.reader_lag(p_after bigint, p_takes jsonb, p_most integer)
    RETURNS TABLE (events bigint, since timestamptz, estimated boolean)
    LANGUAGE plpgsql STABLE ROWS 1
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    last CONSTANT bigint := (SELECT last_value FROM tidemark.journal_position);
    parts CONSTANT integer := CASE WHEN last - p_after > p_most THEN 10 ELSE 1 END;
    width CONSTANT bigint := greatest(last - p_after, 0) / parts + 1;
    types CONSTANT text[] := CASE WHEN p_takes ? 'types'
        THEN array(SELECT jsonb_array_elements_text(p_takes -> 'types')) END;
    intents CONSTANT text[] := CASE WHEN p_takes ? 'intents'
        THEN array(SELECT jsonb_array_elements_text(p_takes -> 'intents')) END;
    required CONSTANT text[] := array(SELECT jsonb_array_elements_text(p_takes -> 'required'));
    any_of CONSTANT text[] := array(SELECT jsonb_array_elements_text(p_takes -> 'any_of'));
    prefix CONSTANT text := coalesce(p_takes ->> 'prefix', '');
    notices CONSTANT boolean := coalesce((p_takes -> 'notices')::boolean, false);
    first bigint; -- position of the first event that it takes
    unread bigint; -- first position after which events are not read
    archived record;
BEGIN
    SELECT coalesce(sum(s.taken * s.weight), 0)::bigint, min(s.first), min(s.until) FILTER (WHERE s.weight > 1)
    INTO events, first, unread
    FROM generate_series(0, parts - 1) AS i
    CROSS JOIN LATERAL (SELECT p_after + i * width AS start, least(p_after + (i + 1) * width, last) AS stop) AS w
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE e.taken) AS taken, min(e.position) FILTER (WHERE e.taken) AS first,
            max(e.position) AS until, CASE WHEN count(*) >= p_most / parts AND max(e.position) < w.stop
                THEN (w.stop - w.start)::float8 / (max(e.position) - w.start) ELSE 1 END AS weight
        FROM (
            SELECT j.position, j.event_version > 0 AND starts_with(j.campaign_id, prefix)
                AND CASE WHEN notices AND j.event_type = 'events_erased'
                        AND EXISTS (SELECT FROM tidemark.notices(ARRAY[j.position], '{}')) THEN EXISTS (
                    SELECT FROM tidemark.notices(ARRAY[j.position], required || any_of) n
                    WHERE (types IS NULL OR n.event_type = ANY (types) OR j.event_type = ANY (types))
                        AND (intents IS NULL OR n.intent = ANY (intents))
                        AND n.tags @> required AND (any_of = '{}' OR n.tags && any_of))
                ELSE (types IS NULL OR j.event_type = ANY (types))
                    AND (intents IS NULL OR j.intent::text = ANY (intents))
                    AND (required = '{}' OR NOT EXISTS (SELECT FROM unnest(required) AS r (tag)
                        WHERE NOT EXISTS (SELECT FROM unnest(j.tags) AS t (tag)
                            WHERE t.tag = r.tag OR starts_with(t.tag, r.tag || '='))))
                    AND (any_of = '{}' OR EXISTS (SELECT FROM unnest(any_of) AS r (tag)
                        JOIN unnest(j.tags) AS t (tag)
                            ON t.tag = r.tag OR starts_with(t.tag, r.tag || '='))) END AS taken
            FROM tidemark.journal j WHERE j.position > w.start AND j.position <= w.stop
            ORDER BY j.position LIMIT p_most / parts
        ) e
    ) AS s
    WHERE p_after < last;
    IF unread < first OR first IS NULL THEN
        first := unread + 1;
    END IF;
    SELECT j.recorded_at INTO since FROM tidemark.journal j WHERE j.position >= first ORDER BY j.position LIMIT 1;
    SELECT * INTO archived FROM tidemark.archived_after(p_after, types, p_most);
    estimated := unread IS NOT NULL
        OR archived.events > 0 AND (coalesce(p_takes, '{}') <> '{}' OR archived.within);
    events := events + archived.events;
    since := least(since, archived.since);
    RETURN NEXT;
END
$$;

-- keys_behind counts up to p_most failed and p_most dead keys of a projection across campaigns, and returns the
-- position of the next event of the one that is furthest behind, 0 without keys.
CREATE OR REPLACE FUNCTION tidemark.keys_behind(p_group text, p_projection text, p_most integer)
    RETURNS TABLE (keys bigint, first bigint)
    LANGUAGE plpgsql STABLE ROWS 1
    SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    SELECT count(*), coalesce(least(min(k.next_seq), (SELECT min(d.next_seq) FROM tidemark.failed d
        WHERE d.projection = p_projection AND d.status IN ('failed', 'dead'))), 0)
    FROM (
        (SELECT d.next_seq FROM tidemark.failed d WHERE d.consumer_group = p_group AND d.projection = p_projection
            AND d.next_attempt_at < 'infinity' LIMIT p_most)
        UNION ALL
        (SELECT d.next_seq FROM tidemark.failed d WHERE d.consumer_group = p_group AND d.projection = p_projection
            AND d.status = 'dead' LIMIT p_most)
    ) k;
END
$$;

-- takes_kind reports whether a projection takes events of a type and intent: see tidemark.reader_lag. It is inlined.
CREATE OR REPLACE FUNCTION tidemark.takes_kind(p_takes jsonb, p_type text, p_intent text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN coalesce((p_takes -> 'types' ? p_type), true) AND coalesce((p_takes -> 'intents' ? p_intent), true);

-- group_lag measures how far a group (projection is '') and each of its projections is behind the
-- journal in campaigns that have work: events that it takes after the checkpoint, their campaigns, and
-- when the oldest was recorded. The group takes what one of them takes, or all if it has none. p_exact
-- events are read, shared among the campaigns, and extrapolated. A stub stands for events of any kind.
CREATE OR REPLACE FUNCTION tidemark.group_lag(p_group text, p_exact integer, p_pages integer)
    RETURNS TABLE (projection text, events bigint, campaigns bigint, since timestamptz, estimated boolean)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    many CONSTANT boolean := (SELECT count(*) > p_exact FROM (SELECT FROM tidemark.outbox o
        WHERE o.consumer_group = p_group LIMIT p_exact + 1) o);
BEGIN
    RETURN QUERY
    -- A sampled row represents weight rows, so a campaign has the weight of its sampled rows
    -- divided by its number of rows. The count stops at 100 rows. Beyond that the number is
    -- estimated from the campaign's events and the average events of its sampled rows.
    WITH items AS MATERIALIZED (
        SELECT o.campaign_id, 0::float8 AS weight, 1 AS each FROM tidemark.outbox o
        WHERE NOT many AND o.consumer_group = p_group GROUP BY o.campaign_id
        UNION ALL
        SELECT o.campaign_id, sum(p.weight), avg(o.events)
        FROM tidemark.sample_pages('tidemark.outbox', p_pages) p
        CROSS JOIN LATERAL (
            SELECT i.campaign_id, i.events FROM tidemark.outbox i WHERE i.ctid >= p.first AND i.ctid <= p.last
                AND i.consumer_group = p_group OFFSET 0
        ) o
        WHERE many GROUP BY o.campaign_id
    ), behind AS MATERIALIZED (
        SELECT i.*, coalesce(l.checkpoint, 0) AS checkpoint, h.seq - coalesce(l.checkpoint, 0) AS events
        FROM items i
        LEFT JOIN LATERAL (SELECT l.checkpoint FROM tidemark.leases l WHERE l.consumer_group = p_group
            AND l.campaign_id = i.campaign_id OFFSET 0) l ON true
        CROSS JOIN LATERAL (SELECT j.seq FROM tidemark.journal j WHERE j.campaign_id = i.campaign_id
            ORDER BY j.campaign_id DESC, j.seq DESC LIMIT 1) h
        WHERE h.seq > coalesce(l.checkpoint, 0)
    ), share AS MATERIALIZED (
        SELECT CASE WHEN sum(b.events) <= p_exact THEN p_exact ELSE greatest(p_exact / count(*), 1) END AS most
        FROM behind b
    ), looked AS MATERIALIZED (
        SELECT b.campaign_id, e.*, sum(e.n) OVER (PARTITION BY b.campaign_id) < b.events AS cut,
            e.n * b.events / sum(e.n) OVER (PARTITION BY b.campaign_id) AS events, CASE WHEN NOT many THEN 1
                ELSE b.weight / CASE WHEN r.n < 100 THEN r.n ELSE greatest(b.events / b.each, 100) END END AS weight
        FROM behind b CROSS JOIN LATERAL (
            SELECT count(*) AS n FROM (SELECT FROM tidemark.outbox o WHERE many AND o.consumer_group = p_group
                AND o.campaign_id = b.campaign_id LIMIT 100) o
        ) r CROSS JOIN LATERAL (
            SELECT CASE WHEN j.event_version > 0 THEN j.event_type END AS event_type,
                CASE WHEN j.event_version > 0 THEN j.intent::text END AS intent, count(*) AS n,
                min(j.recorded_at) AS since
            FROM (SELECT * FROM tidemark.journal j WHERE j.campaign_id = b.campaign_id AND j.seq > b.checkpoint
                ORDER BY j.seq LIMIT (SELECT s.most FROM share s)) j
            GROUP BY 1, 2
        ) e
    ), kinds AS MATERIALIZED (
        SELECT row_number() OVER () AS id, k.* FROM (SELECT l.event_type, l.intent, sum(l.events * l.weight) AS events,
            min(l.since) AS since, bool_or(l.cut) AS cut FROM looked l GROUP BY l.event_type, l.intent) k
    ), sets AS MATERIALIZED (
        SELECT c.ids, sum(c.weight) AS campaigns FROM (
            SELECT array_agg(k.id) AS ids, min(l.weight) AS weight FROM looked l JOIN kinds k
                ON k.event_type IS NOT DISTINCT FROM l.event_type AND k.intent IS NOT DISTINCT FROM l.intent
            GROUP BY l.campaign_id
        ) c GROUP BY c.ids
    ), taken AS (
        SELECT p.name, k.* FROM tidemark.projections p CROSS JOIN kinds k WHERE p.consumer_group = p_group
            AND p.scope = 'campaign' AND tidemark.takes_kind(p.takes, k.event_type, k.intent)
        UNION
        SELECT '', k.* FROM kinds k WHERE EXISTS (SELECT FROM tidemark.projections p WHERE p.consumer_group = p_group
                AND p.scope = 'campaign' AND tidemark.takes_kind(p.takes, k.event_type, k.intent))
            OR NOT EXISTS (SELECT FROM tidemark.projections p WHERE p.consumer_group = p_group)
    )
    SELECT t.name, sum(t.events)::bigint, (SELECT sum(s.campaigns)::bigint FROM sets s WHERE s.ids && array_agg(t.id)),
        min(t.since), many OR (SELECT bool_or(k.cut) FROM kinds k)
    FROM taken t GROUP BY t.name;
END
$$;

-- lag_report measures how far each group is behind (projection is ''), and each projection in two rows:
-- with its group, by tidemark.group_lag, and further. A row of failed adds the events that the
-- projection takes from next_seq to its group's checkpoint. If the group has no work left in the
-- campaign it adds those to the campaign's end, and the campaign. since is when the oldest of them was
-- recorded.
CREATE OR REPLACE FUNCTION tidemark.lag_report(p_exact integer, p_pages integer)
    RETURNS TABLE (consumer_group text, projection text, events bigint, campaigns bigint, since timestamptz,
        estimated boolean)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    all_pairs CONSTANT boolean := (SELECT count(*) <= p_exact FROM (SELECT FROM tidemark.failed d
        ORDER BY d.campaign_id LIMIT p_exact + 1) d);
BEGIN
    RETURN QUERY
    SELECT g.name, '', 0::bigint, 0::bigint, NULL::timestamptz, false FROM tidemark.consumer_groups g
    UNION ALL
    SELECT g.name, l.* FROM tidemark.consumer_groups g
    CROSS JOIN LATERAL tidemark.group_lag(g.name, p_exact, p_pages) l;
    RETURN QUERY
    WITH pairs AS MATERIALIZED (
        SELECT d.campaign_id, d.projection, d.consumer_group, d.next_seq, 1::float8 AS weight
        FROM (SELECT d.* FROM tidemark.failed d ORDER BY d.campaign_id, d.projection LIMIT p_exact) d
        WHERE all_pairs
        UNION ALL
        SELECT d.campaign_id, d.projection, d.consumer_group, d.next_seq, p.weight
        FROM tidemark.sample_pages('tidemark.failed', p_pages) p CROSS JOIN LATERAL (
            SELECT i.campaign_id, i.projection, i.consumer_group, i.next_seq FROM tidemark.failed i
                WHERE i.ctid >= p.first AND i.ctid <= p.last OFFSET 0
        ) d
        WHERE NOT all_pairs
        -- Rows that the pages may have missed: for each projection, status and class of error, the
        -- row that has failed longest.
        UNION ALL
        SELECT d.campaign_id, d.projection, d.consumer_group, d.next_seq, 0
        FROM tidemark.projections p CROSS JOIN unnest('{failed,dead}'::text[]) AS s (status) CROSS
            JOIN unnest('{"",infrastructure,lock,permanent,transient}'::text[]) AS k (class)
        CROSS JOIN LATERAL (
            SELECT d.* FROM tidemark.failed d
            WHERE d.status IN ('failed', 'dead') AND d.consumer_group = p.consumer_group AND d.projection = p.name
                AND d.status = s.status AND coalesce(d.error_class, '') = k.class
            ORDER BY d.consumer_group, d.projection, d.status, coalesce(d.error_class, ''), d.first_failed_at LIMIT 1
        ) d
        WHERE NOT all_pairs
    ), placed AS MATERIALIZED (
        SELECT p.*, CASE WHEN g.in_group THEN l.checkpoint ELSE h.seq END - p.next_seq + 1 AS events, g.in_group
        FROM pairs p
        CROSS JOIN LATERAL (SELECT coalesce((SELECT l.checkpoint FROM tidemark.leases l
            WHERE l.consumer_group = p.consumer_group AND l.campaign_id = p.campaign_id), 0) AS checkpoint OFFSET 0) l
        CROSS JOIN LATERAL (SELECT j.seq FROM tidemark.journal j WHERE j.campaign_id = p.campaign_id
            ORDER BY j.campaign_id DESC, j.seq DESC LIMIT 1) h
        CROSS JOIN LATERAL (SELECT h.seq > l.checkpoint AND EXISTS (SELECT FROM tidemark.outbox o
            WHERE o.consumer_group = p.consumer_group AND o.campaign_id = p.campaign_id) AS in_group OFFSET 0) g
        WHERE CASE WHEN g.in_group THEN l.checkpoint ELSE h.seq END >= p.next_seq
    ), share AS MATERIALIZED (
        SELECT CASE WHEN sum(p.events) <= p_exact THEN p_exact ELSE greatest(p_exact / count(*), 1) END AS most
        FROM placed p
    ), counted AS (
        SELECT p.*, e.since, e.taken, e.seen FROM placed p
        JOIN tidemark.projections r ON r.consumer_group = p.consumer_group AND r.name = p.projection
        CROSS JOIN LATERAL (
            SELECT count(*) AS seen, count(*) FILTER (WHERE j.taken) AS taken,
                min(j.recorded_at) FILTER (WHERE j.taken) AS since
            FROM (SELECT j.recorded_at, j.event_version = 0
                    OR tidemark.takes_kind(r.takes, j.event_type, j.intent::text) AS taken
                FROM tidemark.journal j WHERE j.campaign_id = p.campaign_id AND j.seq >= p.next_seq
                    AND j.seq < p.next_seq + p.events
                ORDER BY j.seq LIMIT (SELECT s.most FROM share s)) j
        ) e
    )
    SELECT c.consumer_group, c.projection, sum(c.weight * c.events * c.taken / greatest(c.seen, 1))::bigint,
        coalesce(sum(c.weight) FILTER (WHERE c.taken > 0 AND NOT c.in_group), 0)::bigint, min(c.since),
        NOT all_pairs OR bool_or(c.seen < c.events)
    FROM counted c GROUP BY c.consumer_group, c.projection;
END
$$;
-- +goose StatementEnd

-- functions/leases.sql
-- +goose StatementBegin
-- Leases of campaigns, and the checkpoints that they guard.
--
-- leases, outbox and failed swing between empty and millions of rows while one plan stays cached.
-- So these functions, and those of claims.sql, crashes.sql, outbox.sql and projections.sql, run
-- under settings and in a form that leave the planner one choice. Each probes the primary key for
-- every named campaign (a lateral subquery that cannot be pulled up), then locks the row, which
-- cannot move meanwhile, and updates it by its place (ctid). While an old snapshot keeps vacuum
-- from dead rows (docs/adr/0020), a lease has hundreds of dead versions, each with an entry in the
-- index. Equal keys stand in the order of their places and the table grows at its end, so a probe
-- backwards usually meets the live version first. Postgres drops an ORDER BY after a campaign_id
-- that is given by =, so these probes say BETWEEN. A woken worker usually has one campaign.
-- Separate statements for one campaign do the same as those for many and start sooner.

-- acquire_leases leases the campaigns that are free: p_idle have a lease row, p_new had none a
-- moment ago. Each array names a campaign once. Rows are locked in the order of campaign_id. A row
-- that another transaction is writing is skipped, never waited for.
-- The lease of a fallen owner is taken over as if it had expired. So is a stranded lease, but it
-- does not count as a crash. A lease that expired without being released was left by a process that
-- died, or that lost the database for longer than its TTL: crashes are detected only here.
-- crashed_ids lists the leased campaigns with a row in tidemark.crashes: those just recorded, and
-- suspects whose checkpoint has not moved.
CREATE OR REPLACE FUNCTION tidemark.acquire_leases(p_group text, p_owner text, p_idle text[], p_new text[],
        p_ttl interval, OUT campaign_ids text[], OUT generations bigint[], OUT checkpoints bigint[],
        OUT crashed_ids text[])
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    fallen CONSTANT text[] := tidemark.fallen(p_group);
    left_ids text[];
    left_checkpoints bigint[];
    left_by text[];
    left_at timestamptz[];
    new_ids text[];
BEGIN
    campaign_ids := '{}'; generations := '{}'; checkpoints := '{}'; crashed_ids := '{}';
    IF cardinality(p_idle) > 0 THEN
        WITH free AS MATERIALIZED (
            SELECT f.place, f.left_by, f.left_at
            FROM (SELECT * FROM unnest(p_idle) AS c (campaign_id) ORDER BY 1) w CROSS JOIN LATERAL (
                SELECT l.ctid AS place, CASE WHEN l.expires_at > '-infinity' AND l.expires_at <= at
                    OR l.owner = ANY (fallen) AND l.expires_at > at THEN l.owner END AS left_by,
                    l.expires_at AS left_at FROM tidemark.leases l
                WHERE l.consumer_group = p_group AND l.campaign_id BETWEEN w.campaign_id AND w.campaign_id
                    AND (l.expires_at <= at OR l.owner = ANY (fallen) OR l.expires_at > at + p_ttl + interval '1 s'
                        AND l.owner <> 'paused' AND tidemark.stranded(l.owner, l.expires_at))
                ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
                FOR UPDATE SKIP LOCKED
            ) f
        ), taken AS (
            UPDATE tidemark.leases l SET owner = p_owner, generation = l.generation + 1, expires_at = at + p_ttl
            FROM free f WHERE l.ctid = f.place
            RETURNING l.campaign_id, l.generation, l.checkpoint, f.left_by, f.left_at
        )
        SELECT coalesce(array_agg(t.campaign_id), '{}'), coalesce(array_agg(t.generation), '{}'),
            coalesce(array_agg(t.checkpoint), '{}'),
            array_agg(t.campaign_id) FILTER (WHERE t.left_by IS NOT NULL),
                array_agg(t.checkpoint) FILTER (WHERE t.left_by IS NOT NULL),
            array_agg(t.left_by) FILTER (WHERE t.left_by IS NOT NULL),
                array_agg(t.left_at) FILTER (WHERE t.left_by IS NOT NULL)
        INTO campaign_ids, generations, checkpoints, left_ids, left_checkpoints, left_by, left_at
        FROM taken t;
        IF left_ids IS NOT NULL THEN
            crashed_ids := tidemark.note_crashes(p_group, left_ids, left_checkpoints, left_by, left_at, p_ttl);
        END IF;
        -- Almost always an index without entries.
        IF EXISTS (SELECT FROM tidemark.crashes c WHERE c.consumer_group = p_group AND cardinality(c.owners) > 0) THEN
            SELECT coalesce(array_agg(DISTINCT k.campaign_id), '{}') INTO crashed_ids
            FROM (
                SELECT unnest(crashed_ids) AS campaign_id
                UNION ALL
                SELECT u.campaign_id
                FROM unnest(campaign_ids, checkpoints) AS u (campaign_id, checkpoint)
                CROSS JOIN LATERAL (
                    SELECT c.checkpoint FROM tidemark.crashes c
                    WHERE c.consumer_group = p_group AND c.campaign_id = u.campaign_id
                        AND cardinality(c.owners) > 0 OFFSET 0
                ) c
                WHERE c.checkpoint = u.checkpoint
            ) k;
        END IF;
    END IF;
    IF cardinality(p_new) > 0 THEN
        WITH made AS (
            INSERT INTO tidemark.leases AS l (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
            SELECT p_group, c.campaign_id, p_owner, 1, at + p_ttl, 0
            FROM (SELECT * FROM unnest(p_new) AS c (campaign_id) ORDER BY 1) c
            ON CONFLICT DO NOTHING
            RETURNING l.campaign_id
        )
        SELECT coalesce(array_agg(m.campaign_id), '{}') INTO new_ids FROM made m;
        campaign_ids := campaign_ids || new_ids;
        generations := generations || array_fill(1::bigint, ARRAY[cardinality(new_ids)]);
        checkpoints := checkpoints || array_fill(0::bigint, ARRAY[cardinality(new_ids)]);
    END IF;
END
$$;

-- advance is the fence. It moves the checkpoints of leases that the caller still holds, releases
-- those with p_release and renews the others. If the caller no longer holds a lease, or its
-- checkpoint has moved, it fails the transaction with TM010. p_events and p_hashes are the number
-- of events applied and the hash of their ids, stored with the checkpoint. A NULL hash makes the
-- campaign's hash unknown for good.
CREATE OR REPLACE FUNCTION tidemark.advance(p_group text, p_owner text, p_campaign_ids text[], p_generations bigint[],
    p_from bigint[], p_to bigint[], p_release boolean[], p_ttl interval, p_events bigint[], p_hashes bigint[])
    RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    done text[];
    places tid[];
    checkpoints bigint[];
    releases boolean[];
    events bigint[];
    hashes bigint[];
BEGIN
    -- No lock is taken first: other sessions almost never write these rows.
    IF cardinality(p_campaign_ids) = 1 THEN
        UPDATE tidemark.leases l
        SET checkpoint = p_to[1], applied = l.applied + p_events[1], applied_hash = l.applied_hash # p_hashes[1],
            expires_at = CASE WHEN p_release[1] THEN '-infinity' ELSE clock_timestamp() + p_ttl END
        WHERE l.ctid = (
                SELECT h.ctid FROM tidemark.leases h
                WHERE h.consumer_group = p_group AND h.campaign_id BETWEEN p_campaign_ids[1] AND p_campaign_ids[1]
                ORDER BY h.consumer_group DESC, h.campaign_id DESC LIMIT 1
            ) AND l.generation = p_generations[1] AND l.owner = p_owner AND l.checkpoint = p_from[1];
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    WITH moved AS (
        UPDATE tidemark.leases l
        SET checkpoint = m.new, applied = l.applied + m.events, applied_hash = l.applied_hash # m.hash,
            expires_at = CASE WHEN m.release THEN '-infinity' ELSE clock_timestamp() + p_ttl END
        FROM (
            SELECT u.*, h.place
            FROM (
                SELECT * FROM unnest(p_campaign_ids, p_generations, p_from, p_to, p_release, p_events,
                    p_hashes) AS u (campaign_id, generation, old, new, release, events, hash)
                ORDER BY 1
            ) u
            CROSS JOIN LATERAL (
                SELECT l.ctid AS place FROM tidemark.leases l
                WHERE l.consumer_group = p_group AND l.campaign_id BETWEEN u.campaign_id AND u.campaign_id
                ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
            ) h OFFSET 0
        ) m
        WHERE l.ctid = m.place AND l.generation = m.generation AND l.owner = p_owner AND l.checkpoint = m.old
        RETURNING l.campaign_id
    )
    SELECT coalesce(array_agg(campaign_id), '{}') INTO done FROM moved;
    IF cardinality(done) < cardinality(p_campaign_ids) THEN
        -- A renewal may have moved rows to another place meanwhile. Lock the remaining rows, then
        -- write them in a statement whose snapshot has them.
        SELECT array_agg(h.place), array_agg(u.new), array_agg(u.release), array_agg(u.events), array_agg(u.hash)
        INTO places, checkpoints, releases, events, hashes
        FROM (
            SELECT * FROM unnest(p_campaign_ids, p_generations, p_from, p_to, p_release, p_events,
                p_hashes) AS u (campaign_id, generation, old, new, release, events, hash)
            WHERE u.campaign_id <> ALL (done) ORDER BY 1
        ) u
        CROSS JOIN LATERAL (
            SELECT l.ctid AS place FROM tidemark.leases l
            WHERE l.consumer_group = p_group AND l.campaign_id = u.campaign_id AND l.generation = u.generation
                AND l.owner = p_owner AND l.checkpoint = u.old
            FOR UPDATE
        ) h;
        IF cardinality(done) + coalesce(cardinality(places), 0) < cardinality(p_campaign_ids) THEN
            RAISE EXCEPTION '% of % leases are no longer held',
                cardinality(p_campaign_ids) - cardinality(done) - coalesce(cardinality(places), 0),
                cardinality(p_campaign_ids) USING ERRCODE = 'TM010', HINT = 'another worker has taken over: drop the work, claim again';
        END IF;
        UPDATE tidemark.leases l
        SET checkpoint = m.checkpoint, applied = l.applied + m.events, applied_hash = l.applied_hash # m.hash,
            expires_at = CASE WHEN m.release THEN '-infinity' ELSE clock_timestamp() + p_ttl END
        FROM unnest(places, checkpoints, releases, events, hashes) AS m (place, checkpoint, release, events, hash)
        WHERE l.ctid = m.place;
    END IF;
END
$$;

-- renew extends the leases that the caller still holds, and returns their campaigns. A row that is
-- being written is skipped and returned as held: its writer is either the owner's own transaction
-- or a claim that will own the lease. The fence tells these apart.
CREATE OR REPLACE FUNCTION tidemark.renew(p_group text, p_owner text, p_campaign_ids text[], p_generations bigint[],
    p_ttl interval)
    RETURNS TABLE (campaign_id text)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    RETURN QUERY
    WITH mine AS MATERIALIZED (
        SELECT * FROM unnest(p_campaign_ids, p_generations) AS u (campaign_id, generation) ORDER BY 1
    ), held AS MATERIALIZED (
        SELECT m.campaign_id
        FROM mine m CROSS JOIN LATERAL (
            SELECT FROM tidemark.leases l
            WHERE l.consumer_group = p_group AND l.campaign_id BETWEEN m.campaign_id AND m.campaign_id
                AND l.generation = m.generation AND l.owner = p_owner AND l.expires_at > '-infinity'
            ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
        ) l
    ), quiet AS MATERIALIZED (
        SELECT q.place
        FROM mine m CROSS JOIN LATERAL (
            SELECT l.ctid AS place FROM tidemark.leases l
            WHERE l.consumer_group = p_group AND l.campaign_id BETWEEN m.campaign_id AND m.campaign_id
                AND l.generation = m.generation AND l.owner = p_owner AND l.expires_at > '-infinity'
            ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
            FOR UPDATE SKIP LOCKED
        ) q
    ), renewed AS (
        UPDATE tidemark.leases l SET expires_at = clock_timestamp() + p_ttl
        FROM quiet q WHERE l.ctid = q.place
    )
    SELECT h.campaign_id FROM held h;
END
$$;

-- release gives back leases without moving their checkpoints. Leases that another transaction is
-- writing come last, with a wait of at most 300 ms. If that transaction rolls back, the lease
-- expires by itself.
CREATE OR REPLACE FUNCTION tidemark.release(p_group text, p_owner text, p_campaign_ids text[], p_generations bigint[])
    RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    places tid[];
    released text[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT array_agg(h.place), coalesce(array_agg(u.campaign_id), '{}') INTO places, released -- as in advance
    FROM (SELECT * FROM unnest(p_campaign_ids, p_generations) AS u (campaign_id, generation) ORDER BY 1) u
    CROSS JOIN LATERAL (
        SELECT l.ctid AS place FROM tidemark.leases l
        WHERE l.consumer_group = p_group AND l.campaign_id = u.campaign_id AND l.generation = u.generation
            AND l.owner = p_owner
        FOR UPDATE SKIP LOCKED
    ) h;
    UPDATE tidemark.leases l SET expires_at = '-infinity' WHERE l.ctid = ANY (places);
    IF cardinality(released) < cardinality(p_campaign_ids) THEN
        BEGIN
            PERFORM set_config('lock_timeout', '300ms', true);
            SELECT array_agg(h.place) INTO places
            FROM (SELECT * FROM unnest(p_campaign_ids, p_generations) AS u (campaign_id, generation)
                WHERE u.campaign_id <> ALL (released) ORDER BY 1) u
            CROSS JOIN LATERAL (
                SELECT l.ctid AS place FROM tidemark.leases l
                WHERE l.consumer_group = p_group AND l.campaign_id = u.campaign_id AND l.generation = u.generation
                    AND l.owner = p_owner
                FOR UPDATE
            ) h;
            UPDATE tidemark.leases l SET expires_at = '-infinity' WHERE l.ctid = ANY (places);
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            NULL;
        END;
    END IF;
END
$$;

-- fence takes campaigns away from their holders, for a transaction that changes data the holders
-- relied on. It raises each generation and releases the lease, so work in progress fails in advance
-- and runs again on the new data. Call it before writing or locking rows of failed: workers lock
-- in that order, and by campaign_id. A campaign without a lease row gets one, because a claim that
-- is just inserting one would not notice otherwise. A paused campaign stays paused.
CREATE OR REPLACE FUNCTION tidemark.fence(p_group text, p_campaign_ids text[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- ON CONFLICT finds the existing row by the primary key, whatever the planner's statistics say.
    INSERT INTO tidemark.leases AS l (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
    SELECT p_group, c.campaign_id, '', 1, '-infinity', 0
    FROM (SELECT DISTINCT u.campaign_id FROM unnest(p_campaign_ids) AS u (campaign_id) ORDER BY 1) c
    ON CONFLICT (consumer_group, campaign_id) DO UPDATE SET generation = l.generation + 1,
        expires_at = CASE WHEN l.owner = 'paused' THEN l.expires_at ELSE '-infinity' END;
END
$$;

-- take_over leases campaigns for a transaction that applies their events itself, even if other
-- owners hold them: their work in progress fails at its fence. It skips campaigns that an operator
-- has paused, and all campaigns of a paused group. Without p_wait it also skips campaigns that are
-- held, or whose row another transaction is writing. Rows are locked in the order of campaign_id.
-- Name each campaign once.
CREATE OR REPLACE FUNCTION tidemark.take_over(p_group text, p_owner text, p_campaign_ids text[], p_wait boolean,
        p_ttl interval)
    RETURNS TABLE (campaign_id text, generation bigint, checkpoint bigint)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    ids text[] := p_campaign_ids;
BEGIN
    IF EXISTS (SELECT FROM tidemark.pauses p WHERE p.scope = 'group' AND p.consumer_group = p_group AND p.name = ''
        AND p.expires_at > at) THEN
        RETURN;
    END IF;
    IF NOT p_wait THEN
        SELECT array(
            SELECT c.campaign_id FROM unnest(p_campaign_ids) AS c (campaign_id)
            WHERE NOT EXISTS (SELECT FROM tidemark.leases l WHERE l.consumer_group = p_group
                AND l.campaign_id = c.campaign_id OFFSET 0)
        ) || array(
            SELECT c.campaign_id
            FROM (SELECT * FROM unnest(p_campaign_ids) AS c (campaign_id) ORDER BY 1) c
            CROSS JOIN LATERAL (
                SELECT FROM tidemark.leases l WHERE l.consumer_group = p_group AND l.campaign_id = c.campaign_id
                    AND (l.expires_at <= at OR l.expires_at > at + p_ttl + interval '1 s' AND l.owner <> 'paused'
                        AND tidemark.stranded(l.owner, l.expires_at))
                FOR UPDATE SKIP LOCKED
            ) free
        ) INTO ids;
    END IF;
    RETURN QUERY
    INSERT INTO tidemark.leases AS l (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
    SELECT p_group, c.campaign_id, p_owner, 1, at + p_ttl, 0
    FROM (SELECT * FROM unnest(ids) AS c (campaign_id) ORDER BY 1) c
    ON CONFLICT (consumer_group, campaign_id) DO UPDATE
        SET owner = p_owner, generation = l.generation + 1, expires_at = clock_timestamp() + p_ttl
        WHERE l.owner <> 'paused' OR l.expires_at <= clock_timestamp()
    RETURNING l.campaign_id, l.generation, l.checkpoint;
END
$$;
-- +goose StatementEnd

-- functions/operator_log.sql
-- +goose StatementBegin
-- The log of operators: a chain of hashes.

-- hash_log returns the hash of a row whose predecessor has the hash p_previous.
CREATE OR REPLACE FUNCTION tidemark.hash_log(p_previous bytea, p_row tidemark.operator_log) RETURNS bytea
    LANGUAGE sql STABLE
    RETURN sha256(p_previous || convert_to(jsonb_build_array(p_row.link, p_row.id, extract(epoch FROM p_row.at),
        p_row.actor,
        p_row.act, p_row.reason, p_row.topic, p_row.publisher, p_row.campaign_id, p_row.seq, p_row.detail, p_row.way,
        p_row.token_id, p_row.address, p_row.database_user)::text, 'UTF8'));

-- walk_log checks up to p_limit rows after the link p_link, whose hash is p_hash. It stops at the
-- first row that breaks the chain.
CREATE OR REPLACE FUNCTION tidemark.walk_log(p_link bigint, p_hash bytea, p_limit integer, OUT link bigint,
    OUT hash bytea, OUT fault text)
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

-- log_act records an act. Roles can write to the log only through it. Empty texts and 0 become
-- NULL.
CREATE OR REPLACE FUNCTION tidemark.log_act(p_actor text, p_act text, p_reason text, p_topic text, p_publisher text,
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
REVOKE EXECUTE ON FUNCTION tidemark.log_act FROM PUBLIC;

-- link_rows links the first 1,000 rows that are not linked yet: others may have left any number. The
-- caller holds the head's lock.
CREATE OR REPLACE FUNCTION tidemark.link_rows(head tidemark.operator_log_head) RETURNS tidemark.operator_log_head
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
REVOKE EXECUTE ON FUNCTION tidemark.link_rows FROM PUBLIC;

-- link_log runs once for each row at COMMIT. The first run links rows of the transaction, and before
-- them those that others have left. The lock on the head is the last one that the transaction takes, so
-- it is held only for the rest of the commit. A session that keeps it holds up no act: after 300 ms
-- the transaction leaves its rows to the next one.
CREATE OR REPLACE FUNCTION tidemark.link_log() RETURNS trigger
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
REVOKE EXECUTE ON FUNCTION tidemark.link_log FROM PUBLIC;
DROP TRIGGER IF EXISTS operator_log_link ON tidemark.operator_log; -- constraint triggers have no REPLACE
CREATE CONSTRAINT TRIGGER operator_log_link AFTER INSERT ON tidemark.operator_log
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tidemark.link_log();

-- guard_log lets link_log link a row and prune_log delete rows before its anchor. It refuses
-- everything else.
CREATE OR REPLACE FUNCTION tidemark.guard_log() RETURNS trigger
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
CREATE OR REPLACE TRIGGER operator_log_no_update BEFORE UPDATE OR DELETE ON tidemark.operator_log
    FOR EACH ROW EXECUTE FUNCTION tidemark.guard_log();
CREATE OR REPLACE TRIGGER operator_log_no_truncate BEFORE TRUNCATE ON tidemark.operator_log
    FOR EACH STATEMENT EXECUTE FUNCTION tidemark.guard_log();

-- prune_log deletes up to p_limit rows that are older than p_age and the head's keep, oldest first,
-- and returns their number. It stops at the first younger row. It refuses rows that break the
-- chain: they are evidence. First it links rows that acts have left. While another session holds the
-- head it does nothing.
CREATE OR REPLACE FUNCTION tidemark.prune_log(p_age interval, p_limit integer) RETURNS bigint
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
REVOKE EXECUTE ON FUNCTION tidemark.prune_log FROM PUBLIC;
-- +goose StatementEnd

-- functions/outbox.sql
-- +goose StatementBegin
-- Work items: their end, and those that are missing.

-- complete deletes the work items of each campaign from its old checkpoint up to its new one, so that
-- it does not step over items that are already deleted. If the checkpoint stays, it deletes all items
-- up to there: work that was already done may have been filed again.
CREATE OR REPLACE FUNCTION tidemark.complete(p_group text, p_campaign_ids text[], p_from bigint[], p_to bigint[])
    RETURNS bigint
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    n bigint;
BEGIN
    IF cardinality(p_campaign_ids) = 1 THEN
        DELETE FROM tidemark.outbox o WHERE o.consumer_group = p_group AND o.campaign_id = p_campaign_ids[1]
            AND o.seq > CASE WHEN p_from[1] < p_to[1] THEN p_from[1] ELSE 0 END AND o.seq <= p_to[1];
        GET DIAGNOSTICS n = ROW_COUNT;
        RETURN n;
    END IF;
    -- Only the session with the campaign's lease deletes rows up to a checkpoint, so the places
    -- stay valid without a lock.
    DELETE FROM tidemark.outbox o
    WHERE o.ctid = ANY (ARRAY(
        SELECT i.place
        FROM (SELECT * FROM unnest(p_campaign_ids, p_from, p_to) AS u (campaign_id, old, new) ORDER BY 1) u
        CROSS JOIN LATERAL (
            SELECT o.ctid AS place FROM tidemark.outbox o
            WHERE o.consumer_group = p_group AND o.campaign_id = u.campaign_id
                AND o.seq > CASE WHEN u.old < u.new THEN u.old ELSE 0 END AND o.seq <= u.new OFFSET 0
        ) i
    ));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END
$$;

-- gaps examines up to p_limit campaigns below p_below ('': from the greatest on). It returns those
-- whose journal has events to project beyond the group's checkpoint although the outbox has no row
-- for them. (Failed campaigns of a projection say nothing about its group, and a group in state
-- 'across' has no campaigns.) It steps down the
-- journal's primary key: one probe finds the next campaign and its last event, one more the
-- checkpoint. It is one statement, so a concurrent append or apply is seen as a whole or not at
-- all. next is where to continue, '' at the end.
CREATE OR REPLACE FUNCTION tidemark.gaps(p_group text, p_below text, p_limit integer,
        OUT campaign_ids text[], OUT checkpoints bigint[], OUT heads bigint[], OUT next text, OUT walked integer)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM tidemark.consumer_groups g WHERE g.name = p_group AND g.state = 'across') THEN
        campaign_ids := '{}'; checkpoints := '{}'; heads := '{}'; next := ''; walked := 0;
        RETURN;
    END IF;
    WITH RECURSIVE walk AS (
        (SELECT p_below COLLATE "C" AS campaign_id, 0::bigint AS head, 0 AS steps WHERE p_below <> ''
        UNION ALL
        SELECT * FROM (SELECT j.campaign_id, j.seq, 1 FROM tidemark.journal j WHERE p_below = ''
            ORDER BY j.campaign_id DESC, j.seq DESC LIMIT 1) AS last)
        UNION ALL
        SELECT n.campaign_id, n.seq, w.steps + 1
        FROM walk w CROSS JOIN LATERAL (
            SELECT j.campaign_id, j.seq FROM tidemark.journal j WHERE j.campaign_id < w.campaign_id
                ORDER BY j.campaign_id DESC, j.seq DESC LIMIT 1
        ) n
        WHERE w.steps < p_limit
    ), looked AS MATERIALIZED (
        SELECT w.campaign_id, w.head, coalesce(l.checkpoint, 0) AS checkpoint, w.head > coalesce(l.checkpoint, 0)
            AND NOT EXISTS (
                SELECT FROM tidemark.outbox o WHERE o.consumer_group = p_group AND o.campaign_id = w.campaign_id
            ) AND EXISTS (
                SELECT FROM tidemark.journal j WHERE j.campaign_id = w.campaign_id
                    AND j.seq > coalesce(l.checkpoint, 0) AND j.intent = 'projection_and_replay'
            ) AS gap
        FROM walk w LEFT JOIN LATERAL (
            SELECT l.checkpoint FROM tidemark.leases l WHERE l.consumer_group = p_group
                AND l.campaign_id BETWEEN w.campaign_id AND w.campaign_id
            ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
        ) l ON true
        WHERE w.steps > 0
    )
    SELECT coalesce(array_agg(k.campaign_id ORDER BY k.campaign_id DESC) FILTER (WHERE k.gap), '{}'),
        coalesce(array_agg(k.checkpoint ORDER BY k.campaign_id DESC) FILTER (WHERE k.gap), '{}'),
        coalesce(array_agg(k.head ORDER BY k.campaign_id DESC) FILTER (WHERE k.gap), '{}'), CASE
            WHEN count(*) < p_limit THEN '' ELSE min(k.campaign_id) END, count(*)
    INTO campaign_ids, checkpoints, heads, next, walked
    FROM looked k;
END
$$;
-- +goose StatementEnd

-- functions/projections.sql
-- +goose StatementBegin
-- The registry of projections, and their failed campaigns.

-- sign_projection writes who names the tables. Others drop what the row names, some with more rights.
CREATE OR REPLACE FUNCTION tidemark.sign_projection() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    NEW.written_by := current_user;
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER projections_sign BEFORE INSERT OR UPDATE OF name, schema_name, table_names, written_by
    ON tidemark.projections FOR EACH ROW EXECUTE FUNCTION tidemark.sign_projection();

-- claim_failed leases failed campaigns whose retry is due, for the projections that the caller
-- knows. It looks at the oldest p_limit of each projection, so none starves the others. It skips
-- paused projections. next_due is the earliest retry among the campaigns that are not leased.
CREATE OR REPLACE FUNCTION tidemark.claim_failed(p_group text, p_owner text, p_projections text[], p_limit integer,
    p_ttl interval,
        OUT campaign_ids text[], OUT generations bigint[], OUT checkpoints bigint[], OUT next_due timestamptz,
            OUT crashed_ids text[])
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    far CONSTANT timestamptz := at + p_ttl + interval '1 s';
    fallen CONSTANT text[] := tidemark.fallen(p_group);
    due_ids text[];
    idle_ids text[];
    new_ids text[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    campaign_ids := '{}'; generations := '{}'; checkpoints := '{}'; crashed_ids := '{}';
    IF EXISTS (SELECT FROM tidemark.pauses p WHERE p.scope = 'group' AND p.consumer_group = p_group AND p.name = ''
        AND p.expires_at > at) THEN
        RETURN;
    END IF;

    SELECT min(d.next_attempt_at), coalesce(array_agg(d.campaign_id) FILTER (WHERE d.next_attempt_at <= at), '{}')
        INTO next_due, due_ids
    FROM (
        SELECT d.campaign_id, d.next_attempt_at
        FROM unnest(p_projections) AS known (projection)
        CROSS JOIN LATERAL (SELECT FROM tidemark.projections p WHERE p.name = known.projection AND p.state = 'active'
            AND NOT EXISTS (SELECT FROM tidemark.pauses x WHERE x.scope = 'projection' AND x.consumer_group = p_group
                AND x.name = p.name AND x.expires_at > at) OFFSET 0) p
        CROSS JOIN LATERAL (
            SELECT d.campaign_id, d.next_attempt_at FROM tidemark.failed d
            WHERE d.consumer_group = p_group AND d.projection = known.projection AND d.next_attempt_at < 'infinity'
                AND NOT EXISTS (SELECT FROM tidemark.leases l WHERE l.consumer_group = p_group
                    AND l.campaign_id = d.campaign_id AND l.expires_at > at
                    AND l.owner <> ALL (fallen) AND NOT (l.expires_at > far AND l.owner <> 'paused'
                        AND tidemark.stranded(l.owner, l.expires_at)) OFFSET 0)
            ORDER BY d.consumer_group, d.projection, d.next_attempt_at
            LIMIT p_limit
        ) d
        ORDER BY d.next_attempt_at
        LIMIT p_limit
    ) d;
    IF cardinality(due_ids) > 0 THEN
        SELECT coalesce(array_agg(c.campaign_id) FILTER (WHERE l.known), '{}'),
            coalesce(array_agg(c.campaign_id) FILTER (WHERE l.known IS NULL), '{}')
        INTO idle_ids, new_ids
        FROM (SELECT DISTINCT unnest(due_ids) AS campaign_id) c
        LEFT JOIN LATERAL (
            SELECT true AS known FROM tidemark.leases l WHERE l.consumer_group = p_group
                AND l.campaign_id BETWEEN c.campaign_id AND c.campaign_id
            ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
        ) l ON true;
        SELECT a.campaign_ids, a.generations, a.checkpoints, a.crashed_ids
            INTO campaign_ids, generations, checkpoints, crashed_ids
        FROM tidemark.acquire_leases(p_group, p_owner, idle_ids, new_ids, p_ttl) AS a;
    END IF;
END
$$;
-- +goose StatementEnd

-- functions/queries.sql
-- +goose StatementBegin
-- Queries by types and tags: docs/guides/conditions.md.

-- query_terms splits a query {"items": [{"types": […], "tags": […]}]} into terms, one for each item
-- and type. The type is NULL where the item names none. A query without items selects everything.
CREATE OR REPLACE FUNCTION tidemark.query_terms(p_query jsonb)
    RETURNS TABLE (item integer, event_type text, tags text[])
    LANGUAGE plpgsql IMMUTABLE ROWS 4
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    items CONSTANT jsonb := p_query -> 'items';
BEGIN
    IF coalesce(jsonb_typeof(p_query), 'null') <> 'object' OR coalesce(jsonb_typeof(items), 'null') <> 'array'
        OR p_query - 'items' <> '{}' THEN
        RAISE EXCEPTION 'query %: it must be an object {"items": […]} and nothing else',
            left(coalesce(p_query::text, 'NULL'), 256)
            USING ERRCODE = 'TM004', HINT = 'an empty array of items selects everything';
    ELSIF items = '[]' THEN
        RETURN QUERY SELECT 0, NULL::text, '{}'::text[];
        RETURN;
    ELSIF jsonb_path_exists(items, 'strict $[*] ? (@.type() != "object")')
        OR jsonb_path_exists(items,
            '$[*].keyvalue() ? (@.key != "types" && @.key != "tags" || @.value.type() != "array")')
        OR jsonb_path_exists(items, '$[*].*[*] ? (@.type() != "string" || @ == "")') THEN
        RAISE EXCEPTION 'query %: each item must be an object of "types" and "tags", which are arrays of strings that are not empty', left(p_query::text, 256)
            USING ERRCODE = 'TM004';
    END IF;
    RETURN QUERY
    SELECT (i.ord - 1)::integer, t.event_type, array(SELECT DISTINCT jsonb_array_elements_text(i.item -> 'tags'))
    FROM jsonb_array_elements(items) WITH ORDINALITY AS i (item, ord)
    CROSS JOIN LATERAL (
        SELECT DISTINCT jsonb_array_elements_text(i.item -> 'types') UNION ALL SELECT NULL
            WHERE coalesce(i.item -> 'types', '[]') = '[]'
    ) AS t (event_type);
END
$$;

-- rarest_tag returns the tag with the fewest events. Counting stops at 100 events a tag.
CREATE OR REPLACE FUNCTION tidemark.rarest_tag(p_tags text[]) RETURNS text
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (
        SELECT t.tag FROM unnest(p_tags) AS t (tag)
        CROSS JOIN LATERAL (SELECT count(*) AS events
            FROM (SELECT FROM tidemark.event_tags g WHERE g.tag = t.tag ORDER BY g.tag, g.event_type, g.position
            LIMIT 100) g) AS n
        ORDER BY n.events, t.tag LIMIT 1
    );
END
$$;

-- query_matches returns the first p_limit positions that a query selects, after p_after, up to
-- p_until and not in p_seen, each with the first item that selects it. Each term reads ranges of
-- one index in order: its rarest tag with its type (or with each type of that tag in turn), its
-- type, or the journal. Other tags are probed.
CREATE OR REPLACE FUNCTION tidemark.query_matches(p_query jsonb, p_after bigint, p_until bigint, p_limit integer,
    p_seen bigint[] DEFAULT '{}')
    RETURNS TABLE ("position" bigint, item integer)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    -- A shortcut for most queries, which have types and one tag: half the time.
    IF jsonb_path_exists(p_query, '$.items[*]') AND NOT jsonb_path_exists(p_query,
        '$.items[*] ? (!(@.tags.size() == 1 && @.types.size() > 0))') THEN
        RETURN QUERY
        SELECT m.position, min(t.item)
        FROM tidemark.query_terms(p_query) AS t
        CROSS JOIN LATERAL (
            SELECT g.position FROM tidemark.event_tags g
            WHERE g.tag = t.tags[1] AND g.event_type = t.event_type AND g.position > p_after AND g.position <= p_until
                AND g.position <> ALL (p_seen)
            ORDER BY g.tag, g.event_type, g.position LIMIT p_limit
        ) AS m
        GROUP BY m.position ORDER BY m.position LIMIT p_limit;
        RETURN;
    END IF;
    -- Events with tags are never archived without a stub, all others are.
    PERFORM tidemark.require_positions(p_after, p_until, CASE WHEN t.event_type IS NOT NULL THEN ARRAY[t.event_type] END)
    FROM tidemark.query_terms(p_query) AS t WHERE t.tags = '{}';
    RETURN QUERY
    WITH terms AS MATERIALIZED (
        SELECT t.item, t.event_type, t.tags, CASE WHEN cardinality(t.tags) > 1 THEN tidemark.rarest_tag(t.tags)
            ELSE t.tags[1] END AS tag FROM tidemark.query_terms(p_query) AS t
    ), found AS (
        SELECT m.position, t.item FROM terms t
        CROSS JOIN LATERAL (
            SELECT t.event_type WHERE t.event_type IS NOT NULL
            UNION ALL (
                WITH RECURSIVE k AS (
                    SELECT (SELECT g.event_type FROM tidemark.event_tags g WHERE g.tag = t.tag
                        ORDER BY g.tag, g.event_type LIMIT 1) AS event_type WHERE t.event_type IS NULL
                    UNION ALL
                    SELECT (SELECT g.event_type FROM tidemark.event_tags g WHERE g.tag = t.tag
                        AND g.event_type > k.event_type ORDER BY g.tag, g.event_type LIMIT 1) FROM k
                        WHERE k.event_type IS NOT NULL
                )
                SELECT k.event_type FROM k WHERE k.event_type IS NOT NULL
            )
        ) AS y (event_type)
        CROSS JOIN LATERAL (
            SELECT g.position FROM tidemark.event_tags g
            WHERE g.tag = t.tag AND g.event_type = y.event_type AND g.position > p_after AND g.position <= p_until
                AND g.position <> ALL (p_seen)
                AND (cardinality(t.tags) = 1 OR cardinality(t.tags) = (
                    SELECT count(*) FROM unnest(t.tags) AS o (tag) CROSS JOIN LATERAL (
                        SELECT FROM tidemark.event_tags h WHERE h.tag = o.tag AND h.event_type = y.event_type
                            AND h.position = g.position LIMIT 1
                    ) AS h))
            ORDER BY g.tag, g.event_type, g.position LIMIT p_limit
        ) AS m
        WHERE t.tag IS NOT NULL
        UNION ALL
        SELECT m.position, t.item FROM terms t
        CROSS JOIN LATERAL (
            SELECT j.position FROM tidemark.journal j
            WHERE j.event_type = t.event_type AND j.position > p_after AND j.position <= p_until
                AND j.position <> ALL (p_seen)
            ORDER BY j.event_type, j.position LIMIT p_limit
        ) AS m
        WHERE t.tag IS NULL AND t.event_type IS NOT NULL
        UNION ALL
        SELECT m.position, t.item FROM terms t
        CROSS JOIN LATERAL (
            SELECT j.position FROM tidemark.journal j
            WHERE j.position > p_after AND j.position <= p_until AND j.position <> ALL (p_seen) ORDER BY j.position
                LIMIT p_limit
        ) AS m
        WHERE t.tag IS NULL AND t.event_type IS NULL
    )
    SELECT f.position, min(f.item) FROM found f GROUP BY f.position ORDER BY f.position LIMIT p_limit;
END
$$;

-- read returns the first p_limit events that a query selects, from position p_from on, in order and
-- up to the writer floor. No event can later appear between them. A rare event may be far away: p_until
-- bounds what one call looks at.
CREATE OR REPLACE FUNCTION tidemark.read(p_query jsonb, p_from bigint DEFAULT 0,
    p_limit integer DEFAULT 100, p_until bigint DEFAULT 9223372036854775807) RETURNS SETOF tidemark.journal
    LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    floor CONSTANT bigint := tidemark.read_floor();
BEGIN
    -- A separate statement, whose snapshot is younger than the floor.
    RETURN QUERY
    SELECT j.* FROM tidemark.query_matches(p_query, p_from - 1, least(floor, p_until), p_limit) AS m
    CROSS JOIN LATERAL (SELECT * FROM tidemark.journal j WHERE j.position BETWEEN m.position AND m.position
        ORDER BY j.position LIMIT 1) AS j
    ORDER BY m.position;
END
$$;

-- tag_terms returns a simple query (up to 16 items, each of one tag with types) as an array tag,
-- type, tag, type, … It uses expressions alone. It returns NULL for any other query and for an
-- invalid one. A query with one tag and one type is recognised by comparing it with a rebuilt one.
CREATE OR REPLACE FUNCTION tidemark.tag_terms(p_query jsonb) RETURNS text[]
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    items CONSTANT jsonb := p_query -> 'items';
    item jsonb;
    tag text := p_query #>> '{items,0,tags,0}';
    type CONSTANT text := p_query #>> '{items,0,types,0}';
    terms text[] := '{}';
BEGIN
    IF tag <> '' AND type <> '' AND p_query = jsonb_build_object('items',
        jsonb_build_array(jsonb_build_object('types', jsonb_build_array(type), 'tags', jsonb_build_array(tag)))) THEN
        RETURN ARRAY[tag, type];
    END IF;
    IF jsonb_typeof(items) IS DISTINCT FROM 'array' OR items = '[]' OR p_query - 'items' <> '{}'
        OR jsonb_array_length(items) > 16 THEN
        RETURN NULL;
    END IF;
    FOR i IN 0 .. jsonb_array_length(items) - 1 LOOP
        item := items -> i;
        IF jsonb_path_match(item,
            'strict $.tags.type() == "array" && $.tags.size() == 1 && $.tags[0].type() == "string" && $.types.type() == "array" && $.types.size() > 0', silent => true) IS NOT true
            OR item - '{types,tags}'::text[] <> '{}' THEN
            RETURN NULL;
        END IF;
        tag := item -> 'tags' ->> 0;
        FOR t IN 0 .. jsonb_array_length(item -> 'types') - 1 LOOP
            IF tag = '' OR coalesce(item -> 'types' ->> t, '') = ''
                OR jsonb_typeof(item -> 'types' -> t) <> 'string' THEN
                RETURN NULL;
            END IF;
            terms := terms || tag || (item -> 'types' ->> t);
        END LOOP;
    END LOOP;
    RETURN terms;
END
$$;
-- +goose StatementEnd

-- functions/reactions.sql
-- +goose StatementBegin
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
-- +goose StatementEnd

-- functions/readers.sql
-- +goose StatementBegin
-- Places of publishers, and of projections across campaigns.

-- guard_places keeps the places of projections from roles that only publish: who moves one makes a read
-- model or a process skip events, or react twice.
CREATE OR REPLACE FUNCTION tidemark.guard_places() RETURNS trigger
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
CREATE OR REPLACE TRIGGER readers_insert BEFORE INSERT ON tidemark.readers
    FOR EACH ROW WHEN (NEW.kind = 'projection') EXECUTE FUNCTION tidemark.guard_places();
CREATE OR REPLACE TRIGGER readers_update BEFORE UPDATE ON tidemark.readers
    FOR EACH ROW WHEN (OLD.kind = 'projection' OR NEW.kind = 'projection') EXECUTE FUNCTION tidemark.guard_places();
CREATE OR REPLACE TRIGGER readers_delete BEFORE DELETE ON tidemark.readers
    FOR EACH ROW WHEN (OLD.kind = 'projection') EXECUTE FUNCTION tidemark.guard_places();

-- claim_readers leases the pairs that are free and active, or whose pause is over. If the
-- server's clock has gone back, a lease from the old time is free as soon as its owner is dead: no
-- lease runs that long. Rows are locked in the order of the key. A row that another transaction is
-- writing is skipped.
--
-- A lease that a projection's holder has left behind counts as a death, as for campaigns: not if the
-- owner was seen after half of the lease's last life, has no record, or if the server started since.
-- deaths is 0 unless the last owner has died; marked is the event that it was trying alone, or 0.
CREATE OR REPLACE FUNCTION tidemark.claim_readers(p_owner text, p_topics text[], p_publishers text[], p_ttl interval)
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

-- move_readers moves the positions of pairs that the caller still holds, extends or releases
-- their leases, and returns those pairs. Positions never go back. It first locks rows in the order
-- of the key, then writes in a statement of its own whose snapshot has the locked rows (as in
-- advance). p_published counts the events sent. Sending any clears the pair's error.
CREATE OR REPLACE FUNCTION tidemark.move_readers(p_owner text, p_topics text[], p_publishers text[],
    p_generations bigint[], p_positions bigint[], p_published bigint[],
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

-- advance_reader moves the place of a partition of a projection and renews its lease. If the caller
-- does not hold it, the place has moved, or the database is not the instance that the caller has read, it
-- fails the transaction with TM010. p_events and p_hash
-- are the number and the hash of the events on the way. Who moves the place, or has survived the event
-- that it tried alone, is no longer suspect.
CREATE OR REPLACE FUNCTION tidemark.advance_reader(p_owner text, p_topic text, p_publisher text, p_generation bigint,
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

-- functions/scheduled.sql
-- +goose StatementBegin
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
-- +goose StatementEnd

-- functions/scheduled_fire.sql
-- +goose StatementBegin
-- Scheduled appends that are due.

-- append_expecting makes an append of a process that expects its campaign at a seq. If the campaign
-- stands elsewhere, it appends an event of the type p_refused instead, or raises TM001 without one.
CREATE OR REPLACE FUNCTION tidemark.append_expecting(p_campaign_id text, p_events jsonb, p_expect bigint,
        p_refused text)
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

-- append_scheduled makes one append, or those of one campaign together. The caller holds the locks.
-- Groups whose applications apply inline get a work item too: no application is there to apply.
CREATE OR REPLACE FUNCTION tidemark.append_scheduled(p_campaign_id text, p_events jsonb) RETURNS void
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

-- append_plain makes due appends in one statement, in the given order, and returns the campaigns that it has left to
-- append_scheduled: those with an append that expects a seq, or with an event that may be in the journal already or
-- is perhaps not allowed. The caller holds the locks. One statement costs a quarter of one for each campaign.
CREATE OR REPLACE FUNCTION tidemark.append_plain(p_campaigns text[], p_appends jsonb[]) RETURNS text[]
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    apart CONSTANT text[] := array(
        SELECT DISTINCT e.campaign FROM (
            SELECT k.campaign, k.id, count(*) OVER (PARTITION BY k.campaign, k.id) AS alike FROM (
                SELECT a.campaign, CASE WHEN tidemark.types_fit(x.event) THEN (x.event ->> 'id')::uuid END AS id
                FROM unnest(p_campaigns, p_appends) AS a (campaign, events)
                CROSS JOIN LATERAL jsonb_array_elements(a.events) AS x (event) OFFSET 0
            ) AS k
        ) AS e WHERE e.id IS NULL OR e.alike > 1 OR EXISTS (SELECT FROM tidemark.find_event(e.campaign, e.id)));
    at timestamptz;
    missing bigint;
BEGIN
    IF coalesce(p_campaigns <@ apart, true) THEN
        RETURN apart;
    END IF;
    at := tidemark.hold_floor();
    WITH given AS MATERIALIZED (
        SELECT n.campaign, n.event, n.ord, n.place, sum(CASE n.nth WHEN 1 THEN coalesce((
            SELECT CASE WHEN j.event_version = 0 THEN tidemark.refuse_archived(n.campaign, j.metadata) ELSE j.seq END
            FROM tidemark.journal j WHERE j.campaign_id = n.campaign ORDER BY j.seq DESC LIMIT 1), 0) + 1 ELSE 1 END)
            OVER (PARTITION BY n.campaign ORDER BY n.nth) AS seq
        FROM (
            SELECT a.campaign, x.event, a.ord, x.ord AS place,
                row_number() OVER (PARTITION BY a.campaign ORDER BY a.ord, x.ord) AS nth
            FROM unnest(p_campaigns, p_appends) WITH ORDINALITY AS a (campaign, events, ord)
            CROSS JOIN LATERAL jsonb_array_elements(a.events) WITH ORDINALITY AS x (event, ord)
            WHERE a.campaign <> ALL (apart)
        ) AS n
    ), made AS (
        INSERT INTO tidemark.journal AS j (campaign_id, seq, position, event_id, event_type, event_version, intent,
            aggregate_type, aggregate_id, actor,
            tags, payload, metadata, payload_bytes, occurred_at, recorded_at)
        SELECT g.campaign, g.seq,
            coalesce(nullif(nextval('tidemark.journal_position'), 0), tidemark.first_position()), e.id, e.type,
            coalesce(e.version, 1),
            CASE WHEN tidemark.event_within(g.event) OR tidemark.check_event(g.campaign, g.place, g.event)
                THEN coalesce(e.intent, 'projection_and_replay') END::tidemark.intent,
            nullif(e.aggregate_type, ''), nullif(e.aggregate_id, ''), nullif(e.actor, ''), nullif(e.tags, '{}'),
            coalesce(e.payload, '{}'), e.metadata,
            coalesce(pg_column_size(e.payload), 0) + coalesce(pg_column_size(e.metadata), 0),
            coalesce(e.occurred_at, at), at
        FROM (SELECT * FROM given i ORDER BY i.ord, i.place) AS g
        CROSS JOIN LATERAL jsonb_to_record(g.event) AS e (id uuid, type text, version integer, intent text,
            aggregate_type text, aggregate_id text, actor text, tags text[], payload jsonb, metadata jsonb,
            occurred_at timestamptz)
        ON CONFLICT (position) DO NOTHING
        RETURNING j.campaign_id, j.seq, j.position, j.event_type, j.tags
    ), tagged AS (
        INSERT INTO tidemark.event_tags (tag, event_type, position)
        SELECT DISTINCT t.tag, m.event_type, m.position FROM made m CROSS JOIN LATERAL unnest(m.tags) AS t (tag)
    ), queued AS (
        INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
        SELECT g.name, m.campaign_id, max(m.seq), at, count(*) FROM made m CROSS JOIN tidemark.consumer_groups g
        WHERE g.name > '' AND g.state IN ('filing', 'ready', 'inline') GROUP BY g.name, m.campaign_id
    )
    SELECT (SELECT count(*) FROM given) - count(*) INTO missing FROM made;
    IF missing > 0 THEN
        PERFORM tidemark.refuse_position();
    END IF;
    IF pg_sequence_last_value('tidemark.waiting') > date_part('epoch', at) * 1000 THEN
        PERFORM tidemark.wake();
    END IF;
    RETURN apart;
END
$$;

-- scheduled_keys returns the keys that appends of these events lock before the campaign, as
-- lock_keys does: types and tags shared, or with p_many buckets of tags exclusively.
CREATE OR REPLACE FUNCTION tidemark.scheduled_keys(p_events jsonb, p_many boolean) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT tidemark.touched_types(p_events) || CASE WHEN p_many THEN
        array(SELECT DISTINCT tidemark.lock_key(32008, k.key & 63)
            FROM unnest(tidemark.touched_tags(p_events)) AS k (key))
        ELSE tidemark.touched_tags(p_events) END
$$;

-- announce_look tells when the caller of fire_scheduled looks next, if it is about to sleep and listens, so that an
-- append that is due before notifies it. Otherwise nothing is to notify.
CREATE OR REPLACE FUNCTION tidemark.announce_look(p_wait interval, p_listens boolean) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    until bigint;
BEGIN
    IF p_wait IS NOT NULL AND p_listens AND tidemark.may_notify() THEN
        SELECT date_part('epoch', least(at + p_wait, (SELECT s.attempt_at FROM tidemark.scheduled s
            WHERE s.attempt_at > at ORDER BY s.attempt_at, s.id LIMIT 1))) * 1000 INTO until;
        PERFORM setval('tidemark.next_look', until) FROM tidemark.next_look n
        WHERE n.last_value NOT BETWEEN date_part('epoch', at) * 1000 AND until;
    ELSE
        PERFORM setval('tidemark.next_look', 0) FROM tidemark.next_look n WHERE n.last_value > 0;
    END IF;
END
$$;

-- due_campaigns returns the campaigns of the first p_most appends that are due at p_at, of 8 MiB together, after a
-- place and without those in p_skip: how many each has, the place of the last, and whether there may be more. NULL
-- campaigns are none. Nothing is locked, so the appends themselves are read again.
CREATE OR REPLACE FUNCTION tidemark.due_campaigns(p_most integer, p_at timestamptz, p_after timestamptz,
    p_after_id bigint, p_skip text[], OUT campaigns text[], OUT counts bigint[], OUT after timestamptz,
    OUT after_id bigint, OUT more boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    WITH due AS MATERIALIZED (
        SELECT d.*, sum(d.bytes) OVER (ORDER BY d.attempt_at, d.id) - d.bytes AS before FROM (
            SELECT s.campaign_id, s.attempt_at, s.id, pg_column_size(s.events) AS bytes FROM tidemark.scheduled s
            WHERE s.attempt_at <= p_at AND (s.attempt_at, s.id) > (p_after, p_after_id)
                AND s.campaign_id <> ALL (p_skip)
            ORDER BY s.attempt_at, s.id LIMIT p_most
        ) AS d
    ), chosen AS MATERIALIZED (
        SELECT * FROM due d WHERE d.before < 8388608
    )
    SELECT array_agg(c.campaign_id), array_agg(c.n), l.attempt_at, l.id,
        sum(c.n) = p_most OR sum(c.n) < (SELECT count(*) FROM due)
    INTO campaigns, counts, after, after_id, more
    FROM (SELECT o.campaign_id, count(*) AS n FROM chosen o GROUP BY o.campaign_id) AS c
    CROSS JOIN (SELECT o.attempt_at, o.id FROM chosen o ORDER BY o.attempt_at DESC, o.id DESC LIMIT 1) AS l
    GROUP BY l.attempt_at, l.id;
END
$$;

-- take_due locks and returns the first due appends of campaigns, so many of each, in their order. The caller holds the
-- campaigns' locks. An append that a caller is cancelling or moving holds back those behind it, and counts in held.
CREATE OR REPLACE FUNCTION tidemark.take_due(p_campaigns text[], p_counts bigint[], p_at timestamptz, OUT ids bigint[],
    OUT owners text[], OUT docs jsonb[], OUT held bigint)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    WITH head AS MATERIALIZED (
        SELECT h.place, row_number() OVER (PARTITION BY h.campaign_id ORDER BY h.attempt_at, h.id) AS n
        FROM unnest(p_campaigns, p_counts) AS c (id, n) CROSS JOIN LATERAL (
            SELECT s.ctid AS place, s.campaign_id, s.attempt_at, s.id FROM tidemark.scheduled s
            WHERE s.campaign_id = c.id AND s.attempt_at <= p_at ORDER BY s.campaign_id, s.attempt_at, s.id LIMIT c.n
        ) AS h
    ), mine AS MATERIALIZED (
        SELECT s.campaign_id, s.id, s.attempt_at, s.events, h.n
        FROM head h JOIN tidemark.scheduled s ON s.ctid = h.place
            AND s.attempt_at <= p_at -- it may just have been moved
        FOR UPDATE OF s SKIP LOCKED
    ), first AS MATERIALIZED (
        SELECT m.*, row_number() OVER (PARTITION BY m.campaign_id ORDER BY m.n) = m.n AS whole FROM mine m
    )
    SELECT array_agg(f.id ORDER BY f.attempt_at, f.id), array_agg(f.campaign_id ORDER BY f.attempt_at, f.id),
        array_agg(f.events ORDER BY f.attempt_at, f.id), (SELECT count(*) FROM head) - count(*)
    INTO ids, owners, docs, held FROM first f WHERE f.whole;
END
$$;

-- lock_due tries the keys of appends, and leaves out all appends of the campaigns that need a key which is not free.
-- Those are in busy.
CREATE OR REPLACE FUNCTION tidemark.lock_due(INOUT ids bigint[], INOUT owners text[], INOUT docs jsonb[],
    OUT busy text[])
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    events CONSTANT jsonb := jsonb_path_query_array(to_jsonb(docs), '$[*][*]');
    many CONSTANT boolean := cardinality(tidemark.touched_tags(events)) > 64;
    keys bigint[];
BEGIN
    busy := '{}';
    keys := array(SELECT k.key FROM unnest(tidemark.scheduled_keys(events, many)) AS k (key)
        WHERE NOT CASE WHEN k.key >> 48 = 32008 THEN pg_try_advisory_xact_lock(k.key)
            ELSE pg_try_advisory_xact_lock_shared(k.key) END);
    IF keys = '{}' THEN
        RETURN;
    END IF;
    WITH due AS MATERIALIZED (
        SELECT u.*, bool_or(tidemark.scheduled_keys(u.doc, many) && keys) OVER (PARTITION BY u.owner) AS stuck
        FROM unnest(ids, owners, docs) WITH ORDINALITY AS u (id, owner, doc, ord)
    )
    SELECT array_agg(d.id ORDER BY d.ord) FILTER (WHERE NOT d.stuck),
        array_agg(d.owner ORDER BY d.ord) FILTER (WHERE NOT d.stuck),
        array_agg(d.doc ORDER BY d.ord) FILTER (WHERE NOT d.stuck),
        coalesce(array_agg(DISTINCT d.owner) FILTER (WHERE d.stuck), '{}')
    INTO ids, owners, docs, busy FROM due d;
END
$$;

-- fire_together makes due appends: all of them, or none with an error.
CREATE OR REPLACE FUNCTION tidemark.fire_together(p_ids bigint[], p_owners text[], p_docs jsonb[]) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    apart text[];
    batch record;
BEGIN
    DELETE FROM tidemark.scheduled s WHERE s.id = ANY (p_ids);
    apart := tidemark.append_plain(p_owners, p_docs);
    FOR batch IN
        SELECT u.owner, CASE count(*) WHEN 1 THEN (array_agg(u.doc))[1]
            ELSE jsonb_path_query_array(jsonb_agg(u.doc ORDER BY u.ord), '$[*][*]') END AS events
        FROM unnest(p_owners, p_docs) WITH ORDINALITY AS u (owner, doc, ord) WHERE u.owner = ANY (apart)
        GROUP BY u.owner ORDER BY min(u.ord)
    LOOP
        PERFORM tidemark.append_scheduled(batch.owner, batch.events);
    END LOOP;
    RETURN coalesce(cardinality(p_ids), 0);
END
$$;

-- retries_whole reports whether an error is the server's or a lock's, so that the whole call is to be tried again.
CREATE OR REPLACE FUNCTION tidemark.retries_whole(p_sqlstate text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN left(p_sqlstate, 2) IN ('25', '40', '53', '55', '57', '58');

-- fire_each makes due appends, each by itself. One that is refused is put off, for 10 minutes at most, and keeps the
-- reason. If its campaign is archived, it is asked for.
CREATE OR REPLACE FUNCTION tidemark.fire_each(p_ids bigint[], p_owners text[], p_docs jsonb[], OUT fired bigint,
    OUT refused bigint)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    fired := 0; refused := 0;
    FOR n IN 1 .. cardinality(p_ids) LOOP
        BEGIN
            DELETE FROM tidemark.scheduled s WHERE s.id = p_ids[n];
            PERFORM tidemark.append_scheduled(p_owners[n], p_docs[n]);
            fired := fired + 1;
        EXCEPTION WHEN OTHERS THEN
            IF tidemark.retries_whole(SQLSTATE) THEN
                RAISE;
            ELSIF SQLSTATE = 'TM014' THEN
                BEGIN
                    PERFORM tidemark.ask_restore(p_owners[n]);
                EXCEPTION
                    WHEN SQLSTATE 'TM015' THEN
                        NULL; -- an operator must bring it back, as its own error says
                    WHEN lock_not_available THEN
                        NULL; -- an open transaction asks for it
                END;
            END IF;
            UPDATE tidemark.scheduled s SET attempts = s.attempts + 1,
                attempt_at = clock_timestamp() + least(interval '10 min', interval '1 s' * 2 ^ least(s.attempts, 16)),
                error = CASE WHEN SQLSTATE LIKE 'TM%' THEN left(SQLERRM, 1000)
                    ELSE format('refused with SQLSTATE %s: append the events by hand to see why', SQLSTATE) END
            WHERE s.id = p_ids[n];
            refused := refused + 1;
        END;
    END LOOP;
END
$$;

-- until_due returns how long a caller of fire_scheduled sleeps, p_wait at most. A next attempt that lies too far ahead
-- dates from before the clock went back, and is made due.
CREATE OR REPLACE FUNCTION tidemark.until_due(p_wait interval, p_most integer) RETURNS interval
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    at timestamptz;
BEGIN
    UPDATE tidemark.scheduled s SET attempt_at = clock_timestamp()
    WHERE s.ctid = ANY (array(SELECT r.ctid FROM tidemark.scheduled r
        WHERE r.attempts > 0 AND r.attempt_at > clock_timestamp() + interval '10 min' AND r.attempt_at > r.due_at
        ORDER BY r.attempt_at LIMIT p_most FOR UPDATE SKIP LOCKED));
    at := clock_timestamp();
    RETURN least(p_wait, (SELECT s.attempt_at FROM tidemark.scheduled s WHERE s.attempt_at > at
        ORDER BY s.attempt_at, s.id LIMIT 1) - at);
END
$$;

-- fire_scheduled makes up to p_limit due appends in one transaction, in the order of (attempt_at,
-- id) after the given place, without the campaigns in p_skip. The campaign's own lock is the lease:
-- its holder reads the campaign's first due appends, makes them and deletes them, so their order
-- holds among any number of workers, and a dead worker holds nothing. All locks are tried and never
-- waited for, so an open transaction delays its own campaign alone. Such campaigns are returned in
-- busy. With p_campaign_id the call is for this campaign alone and waits 300 ms for its locks, like
-- any append: a campaign whose lock always has a queue would never be free.
--
-- With p_wait the caller is about to sleep for so long at most, and for a day. If it listens, the call first says
-- so in tidemark.next_look, and then looks. wait is the time to sleep. held counts due appends that
-- a caller is cancelling.
CREATE OR REPLACE FUNCTION tidemark.fire_scheduled(p_limit integer, p_campaign_id text, p_after timestamptz,
    p_after_id bigint, p_skip text[], p_wait interval, p_listens boolean, OUT fired bigint, OUT refused bigint,
    OUT held bigint, OUT busy text[], OUT more boolean, OUT after timestamptz, OUT after_id bigint, OUT wait interval)
    LANGUAGE plpgsql
    SET lock_timeout = '300ms'
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
        SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    most CONSTANT integer := least(p_limit, (tidemark.append_limits())[8]);
    at timestamptz := clock_timestamp();
    campaigns text[];
    counts bigint[];
    ids bigint[];
    owners text[];
    docs jsonb[];
    stuck text[];
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
        PERFORM tidemark.announce_look(p_wait, p_listens);
        at := clock_timestamp();
        SELECT d.campaigns, d.counts, coalesce(d.after, at), coalesce(d.after_id, 0), coalesce(d.more, false)
        INTO campaigns, counts, after, after_id, more
        FROM tidemark.due_campaigns(most, at, p_after, p_after_id, p_skip) AS d;
        SELECT coalesce(array_agg(c.id) FILTER (WHERE c.free), '{}'), array_agg(c.n) FILTER (WHERE c.free),
            coalesce(array_agg(c.id) FILTER (WHERE NOT c.free), '{}')
        INTO campaigns, counts, busy
        FROM (SELECT u.id, u.n, pg_try_advisory_xact_lock(tidemark.lock_key(32002, hashtextextended(u.id, 0))) AS free
            FROM unnest(campaigns, counts) AS u (id, n)) AS c;
    END IF;

    IF campaigns <> '{}' THEN -- only now, under the campaigns' locks, the appends themselves
        SELECT t.ids, t.owners, t.docs, t.held INTO ids, owners, docs, held
        FROM tidemark.take_due(campaigns, counts, at) AS t;
        IF ids IS NOT NULL THEN
            SELECT l.ids, l.owners, l.docs, l.busy INTO ids, owners, docs, stuck
            FROM tidemark.lock_due(ids, owners, docs) AS l;
            busy := busy || stuck;
        END IF;
        BEGIN
            fired := tidemark.fire_together(ids, owners, docs);
        EXCEPTION WHEN OTHERS THEN -- one is refused: each by itself
            IF tidemark.retries_whole(SQLSTATE) THEN
                RAISE;
            END IF;
            SELECT e.fired, e.refused INTO fired, refused FROM tidemark.fire_each(ids, owners, docs) AS e;
        END;
    END IF;
    IF p_campaign_id IS NULL AND p_wait IS NOT NULL THEN
        wait := tidemark.until_due(p_wait, most);
        IF fired + refused = 0 THEN
            PERFORM set_config('synchronous_commit', 'off', true); -- nothing but the sequence has changed
        END IF;
    END IF;
END
$$;
-- +goose StatementEnd

-- functions/status.sql
-- +goose StatementBegin
-- Figures for operators and monitoring (docs/adr/0009). They cost as much with ten million rows as
-- with ten thousand. Each function is one statement to its caller, so its figures are of one
-- moment, and takes no locks. Up to p_exact rows are counted. Beyond that, p_pages pages spread
-- evenly over the table are read and extrapolated.

-- sample_pages returns the first and last place (ctid) of up to p_pages pages of a table, spread
-- evenly, and the number of pages that each of them represents.
CREATE OR REPLACE FUNCTION tidemark.sample_pages(p_table regclass, p_pages integer) RETURNS TABLE (first tid, last tid,
    weight float8)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    pages CONSTANT bigint := pg_relation_size(p_table) / current_setting('block_size')::bigint;
    n CONSTANT bigint := least(p_pages, pages);
BEGIN
    RETURN QUERY
    SELECT format('(%s,1)', s.page)::tid, format('(%s,65535)', s.page)::tid, pages::float8 / n
    FROM (SELECT ((2 * i + 1) * pages / (2 * n))::bigint AS page FROM generate_series(0, n - 1) AS i) s;
END
$$;

-- queue_report counts the events of each group's work items by state: pending, processing or
-- paused. It also returns the oldest item that a worker could take. Groups with more than p_exact
-- items are estimated.
CREATE OR REPLACE FUNCTION tidemark.queue_report(p_exact integer, p_pages integer)
    RETURNS TABLE (consumer_group text, pending bigint, processing bigint, paused bigint, estimated boolean,
        campaign_id text, seq bigint, events bigint, event_type text, since timestamptz)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    at CONSTANT timestamptz := now();
    stopped boolean;
    many bigint;
    free bigint;
BEGIN
    FOR consumer_group IN SELECT g.name FROM tidemark.consumer_groups g ORDER BY g.name LOOP
        stopped := EXISTS (SELECT FROM tidemark.pauses p WHERE p.scope = 'group'
            AND p.consumer_group = queue_report.consumer_group AND p.name = '' AND p.expires_at > at);
        SELECT count(*) INTO many FROM (SELECT FROM tidemark.outbox o
            WHERE o.consumer_group = queue_report.consumer_group LIMIT p_exact + 1) o;
        estimated := many > p_exact;
        WITH items AS MATERIALIZED (
            SELECT o.campaign_id, sum(o.events) AS events, max(o.seq) AS seq, 1::float8 AS weight,
                min(o.enqueued_at) AS since
            FROM tidemark.outbox o
            WHERE NOT queue_report.estimated AND o.consumer_group = queue_report.consumer_group
            GROUP BY o.campaign_id
            UNION ALL
            SELECT o.campaign_id, sum(o.events), max(o.seq), max(p.weight), min(o.enqueued_at)
            FROM tidemark.sample_pages('tidemark.outbox', p_pages) p
            CROSS JOIN LATERAL (
                SELECT i.campaign_id, i.seq, i.events, i.enqueued_at FROM tidemark.outbox i
                WHERE i.ctid >= p.first AND i.ctid <= p.last AND i.consumer_group = queue_report.consumer_group OFFSET 0
            ) o
            WHERE queue_report.estimated
            GROUP BY o.campaign_id
        ), looked AS MATERIALIZED (
            SELECT i.campaign_id, i.since, e.events, i.weight * e.events AS n,
                CASE WHEN l.expires_at > at THEN CASE WHEN l.owner = 'paused' THEN 'paused' ELSE 'processing' END
                    ELSE 'free' END AS status
            FROM items i LEFT JOIN LATERAL (
                SELECT l.expires_at, l.owner, l.checkpoint FROM tidemark.leases l
                WHERE l.consumer_group = queue_report.consumer_group AND l.campaign_id = i.campaign_id OFFSET 0
            ) l ON true
            CROSS JOIN LATERAL (SELECT greatest(least(i.events, i.seq - coalesce(l.checkpoint, 0)),
                1) AS events OFFSET 0) e
        ), oldest AS (
            SELECT k.campaign_id, k.events, k.since FROM looked k WHERE k.status = 'free'
                ORDER BY k.since, k.campaign_id LIMIT 1
        )
        SELECT coalesce(sum(k.n) FILTER (WHERE k.status = 'free'), 0),
            coalesce(sum(k.n) FILTER (WHERE k.status = 'processing'), 0),
            coalesce(sum(k.n) FILTER (WHERE k.status = 'paused'), 0), (SELECT o.campaign_id FROM oldest o),
                (SELECT o.events FROM oldest o), (SELECT o.since FROM oldest o)
        INTO free, processing, paused, campaign_id, events, since
        FROM looked k;
        free := greatest(free, many - processing - paused); -- adds rows that the sampled pages missed
        pending := CASE WHEN stopped THEN 0 ELSE free END;
        paused := paused + CASE WHEN stopped THEN free ELSE 0 END;
        IF stopped THEN
            campaign_id := NULL;
        END IF;
        seq := NULL; event_type := NULL;
        IF campaign_id IS NOT NULL THEN
            SELECT j.seq, j.event_type INTO seq, event_type
            FROM tidemark.journal j
            WHERE j.campaign_id = queue_report.campaign_id AND j.seq > coalesce((
                SELECT l.checkpoint FROM tidemark.leases l WHERE l.consumer_group = queue_report.consumer_group
                    AND l.campaign_id = queue_report.campaign_id
            ), 0)
            ORDER BY j.campaign_id, j.seq LIMIT 1;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;

-- failed_report counts rows of failed by group, projection, status and class of error ('' if
-- none). It counts failed and dead rows by the index, each up to its share of p_exact (at least
-- 100). It counts rebuilding rows among the rows of a projection that have a retry time, up to a
-- share of p_exact too. Larger counts are estimated. since is the time of the first failure.
CREATE OR REPLACE FUNCTION tidemark.failed_report(p_exact integer, p_pages integer)
    RETURNS TABLE (consumer_group text, projection text, status text, class text, pairs bigint, estimated boolean,
        since timestamptz)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE failures AS (
        (SELECT d.consumer_group, d.projection, d.status, coalesce(d.error_class, '') AS class, d.first_failed_at
        FROM tidemark.failed d WHERE d.status IN ('failed', 'dead')
        ORDER BY d.consumer_group, d.projection, d.status, coalesce(d.error_class, ''), d.first_failed_at LIMIT 1)
        UNION ALL
        SELECT n.*
        FROM failures f CROSS JOIN LATERAL (
            SELECT d.consumer_group, d.projection, d.status, coalesce(d.error_class, ''), d.first_failed_at
            FROM tidemark.failed d
            WHERE d.status IN ('failed', 'dead') AND (d.consumer_group, d.projection, d.status,
                coalesce(d.error_class, '')) > (f.consumer_group, f.projection, f.status, f.class)
            ORDER BY d.consumer_group, d.projection, d.status, coalesce(d.error_class, ''), d.first_failed_at LIMIT 1
        ) n
    ), failed AS MATERIALIZED (
        SELECT f.*, k.most, c.n
        FROM failures f CROSS JOIN (SELECT greatest(p_exact / greatest(count(*), 1), 100) AS most FROM failures) k
        CROSS JOIN LATERAL (
            SELECT count(*) AS n FROM (
                SELECT FROM tidemark.failed d
                WHERE d.status IN ('failed', 'dead') AND d.consumer_group = f.consumer_group
                    AND d.projection = f.projection AND d.status = f.status AND coalesce(d.error_class, '') = f.class
                LIMIT k.most + 1
            ) d
        ) c
    ), due AS MATERIALIZED (
        SELECT p.consumer_group, p.name AS projection, 'catching_up' AS status, '' AS class, c.n,
            c.looked > k.most AS more
        FROM tidemark.projections p CROSS JOIN (SELECT greatest(p_exact / greatest(count(*), 1), 100) AS most
            FROM tidemark.projections) k
        CROSS JOIN LATERAL (
            SELECT count(*) AS looked, count(*) FILTER (WHERE d.status = 'catching_up') AS n
            FROM (
                SELECT d.status FROM tidemark.failed d
                WHERE d.consumer_group = p.consumer_group AND d.projection = p.name AND d.next_attempt_at < 'infinity'
                    LIMIT k.most + 1
            ) d
        ) c
    ), sampled AS MATERIALIZED (
        SELECT d.consumer_group, d.projection, d.status, d.class, sum(p.weight) AS n
        FROM tidemark.sample_pages('tidemark.failed', p_pages) p CROSS JOIN LATERAL (
            SELECT d.consumer_group, d.projection, d.status, CASE WHEN d.status = 'catching_up' THEN ''
                ELSE coalesce(d.error_class, '') END AS class
            FROM tidemark.failed d WHERE d.ctid >= p.first AND d.ctid <= p.last OFFSET 0
        ) d
        WHERE (SELECT coalesce(bool_or(f.n > f.most), false) FROM failed f)
            OR (SELECT coalesce(bool_or(u.more), false) FROM due u)
        GROUP BY 1, 2, 3, 4
    )
    SELECT c.consumer_group, c.projection, c.status, c.class, CASE
        WHEN c.more THEN greatest(c.n, coalesce(s.n, 0)::bigint) ELSE c.n END, c.more, c.since
    FROM (
        SELECT f.consumer_group, f.projection, f.status, f.class, f.n, f.n > f.most AS more,
            f.first_failed_at AS since FROM failed f
        UNION ALL
        SELECT u.consumer_group, u.projection, u.status, u.class, u.n, u.more, NULL FROM due u
    ) c
    LEFT JOIN sampled s ON s.consumer_group = c.consumer_group AND s.projection = c.projection AND s.status = c.status
        AND s.class = c.class
    WHERE c.n > 0 OR s.n > 0
    ORDER BY 1, 2, 3, 4;
END
$$;

-- scheduled_report counts appends that are to be made, and of these the due and the refused ones, up
-- to p_exact each; beyond that, pending is estimated. overdue_for is the age of the one that has been
-- due for longest.
CREATE OR REPLACE FUNCTION tidemark.scheduled_report(p_exact integer, p_pages integer, OUT pending bigint,
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

-- functions/tokens.sql
-- +goose StatementBegin
-- Tokens of the admin listener, and browser sessions that began with one.

-- create_token creates a token that expires after p_lifetime (NULL: never) and returns its id, or
-- NULL if the name is taken. p_actor and the arguments after it identify the caller for the
-- operators' log.
CREATE OR REPLACE FUNCTION tidemark.create_token(p_name text, p_role text, p_hash bytea, p_lifetime interval,
        p_actor text, p_reason text, p_way text, p_token_id bigint, p_address text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    made tidemark.tokens;
BEGIN
    IF p_name IS NULL OR p_name !~ '^[^[:space:][:cntrl:]:]+$' OR octet_length(p_name) > 128 THEN
        RAISE EXCEPTION 'the token''s name is %', quote_nullable(p_name)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use 1 to 128 bytes without spaces and colons';
    ELSIF p_role IS NULL OR p_role NOT IN ('viewer', 'operator', 'admin') THEN
        RAISE EXCEPTION 'the token''s role is %', quote_nullable(p_role)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use viewer, operator or admin';
    ELSIF p_hash IS NULL OR octet_length(p_hash) <> 32 THEN
        RAISE EXCEPTION 'the token''s hash has % bytes', octet_length(p_hash)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use its SHA-256: 32 bytes';
    ELSIF p_lifetime <= interval '0' THEN
        RAISE EXCEPTION 'the token would expire after %', p_lifetime
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use a time above 0, or NULL for never';
    ELSIF coalesce(p_actor, '') = '' THEN
        RAISE EXCEPTION 'the actor is missing'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'say who does it: it is written to the log';
    END IF;
    INSERT INTO tidemark.tokens AS t (name, role, hash, created_by, expires_at)
    VALUES (p_name, p_role, p_hash, p_actor, coalesce(clock_timestamp() + p_lifetime, 'infinity'))
    ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING RETURNING t.* INTO made;
    IF made.id IS NOT NULL THEN
        PERFORM tidemark.log_act(p_actor, 'token_created', p_reason, '', '', '', 0, jsonb_build_object('request',
            jsonb_build_object('name', p_name, 'role', p_role, 'expires_at',
                to_char(nullif(made.expires_at, 'infinity') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))),
            p_way, p_token_id, p_address);
    END IF;
    RETURN made.id;
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.create_token FROM PUBLIC;

-- revoke_token revokes the token with that name, and reports whether there was one. The other
-- arguments are as for create_token.
CREATE OR REPLACE FUNCTION tidemark.revoke_token(p_name text, p_actor text, p_reason text, p_way text,
        p_token_id bigint, p_address text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF coalesce(p_actor, '') = '' THEN
        RAISE EXCEPTION 'the actor is missing'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'say who does it: it is written to the log';
    END IF;
    UPDATE tidemark.tokens t SET revoked_at = clock_timestamp(), revoked_by = p_actor
    WHERE t.name = p_name AND t.revoked_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM tidemark.log_act(p_actor, 'token_revoked', p_reason, '', '', '', 0,
        jsonb_build_object('request', jsonb_build_object('name', p_name)), p_way, p_token_id, p_address);
    RETURN true;
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.revoke_token FROM PUBLIC;

-- use_token returns the valid token with that hash. It records the use at most once a minute.
CREATE OR REPLACE FUNCTION tidemark.use_token(p_hash bytea) RETURNS TABLE (id bigint, name text, role text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    used timestamptz;
BEGIN
    SELECT t.id, t.name, t.role, t.last_used_at INTO use_token.id, use_token.name, use_token.role, used
    FROM tidemark.tokens t
    WHERE t.hash = p_hash AND t.revoked_at IS NULL AND t.expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF used IS NULL OR used < clock_timestamp() - interval '1 minute' THEN
        UPDATE tidemark.tokens t SET last_used_at = clock_timestamp() WHERE t.id = use_token.id;
    END IF;
    RETURN NEXT;
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.use_token FROM PUBLIC;

-- find_session returns the token of the valid session with that hash.
CREATE OR REPLACE FUNCTION tidemark.find_session(p_hash bytea) RETURNS TABLE (id bigint, name text, role text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT t.id, t.name, t.role FROM tidemark.sessions s JOIN tidemark.tokens t ON t.id = s.token_id
    WHERE s.hash = p_hash AND s.expires_at > clock_timestamp()
        AND t.revoked_at IS NULL AND t.expires_at > clock_timestamp();
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.find_session FROM PUBLIC;

-- begin_session creates a session of p_lifetime for the token with that hash, and reports whether
-- the token is valid. It also deletes up to 100 expired sessions.
CREATE OR REPLACE FUNCTION tidemark.begin_session(p_token bytea, p_hash bytea, p_lifetime interval) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_hash IS NULL OR octet_length(p_hash) <> 32 OR p_lifetime IS NULL
        OR p_lifetime NOT BETWEEN interval '0' AND interval '30 days' THEN
        RAISE EXCEPTION 'the session has a hash of % bytes and lasts %', octet_length(p_hash), p_lifetime
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use a SHA-256 and at most 30 days';
    END IF;
    DELETE FROM tidemark.sessions WHERE hash = ANY (ARRAY(SELECT s.hash FROM tidemark.sessions s
        WHERE s.expires_at < clock_timestamp() ORDER BY s.expires_at LIMIT 100 FOR UPDATE SKIP LOCKED));
    INSERT INTO tidemark.sessions (hash, token_id, expires_at)
    SELECT p_hash, t.id, clock_timestamp() + p_lifetime FROM tidemark.tokens t
    WHERE t.hash = p_token AND t.revoked_at IS NULL AND t.expires_at > clock_timestamp();
    RETURN FOUND;
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.begin_session FROM PUBLIC;

-- end_session deletes the session with that hash.
CREATE OR REPLACE FUNCTION tidemark.end_session(p_hash bytea) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM tidemark.sessions WHERE hash = p_hash;
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.end_session FROM PUBLIC;

-- valid_secrets returns the SHA-256 of the hash of each valid token and of up to 100,000 unexpired
-- sessions: enough to recognise a secret, too little to begin a session.
CREATE OR REPLACE FUNCTION tidemark.valid_secrets() RETURNS SETOF bytea
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    SELECT sha256(t.hash) FROM tidemark.tokens t WHERE t.revoked_at IS NULL AND t.expires_at > clock_timestamp()
    UNION ALL (SELECT sha256(s.hash) FROM tidemark.sessions s WHERE s.expires_at > clock_timestamp() LIMIT 100000);
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.valid_secrets FROM PUBLIC;

-- holding_secrets returns the hashes in p_hashes that belong to a valid token or to a session of
-- one.
CREATE OR REPLACE FUNCTION tidemark.holding_secrets(p_hashes bytea[]) RETURNS SETOF bytea
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    SELECT h FROM unnest(p_hashes) h
    WHERE EXISTS (SELECT FROM tidemark.tokens t
            WHERE t.hash = h AND t.revoked_at IS NULL AND t.expires_at > clock_timestamp())
        OR EXISTS (SELECT FROM tidemark.find_session(h));
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.holding_secrets FROM PUBLIC;
-- +goose StatementEnd

-- functions/waits.sql
-- +goose StatementBegin
-- Workers wait for work, programs wait for projections, and what ends these waits.

-- notify_queue_usage returns how full the NOTIFY queue is, from 0 to 1. All databases of the server share it.
CREATE OR REPLACE FUNCTION tidemark.notify_queue_usage() RETURNS double precision
    LANGUAGE sql
BEGIN ATOMIC
    SELECT pg_notification_queue_usage();
END;

-- may_notify reports whether the NOTIFY queue is at most half full. A commit that notifies fails once it is full.
-- Then this ends all announced waits, so commits do not notify and programs poll. It looks once a second, for all
-- programs: a look takes a lock that all commits with notifications share.
CREATE OR REPLACE FUNCTION tidemark.may_notify() RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    now CONSTANT bigint := extract(epoch FROM clock_timestamp()) * 1000;
    looked bigint := coalesce(pg_sequence_last_value('tidemark.notify_queue'), 0);
BEGIN
    IF looked / 2 NOT BETWEEN now - 1000 AND now THEN
        looked := 2 * now + CASE WHEN tidemark.notify_queue_usage() > 0.5 THEN 1 ELSE 0 END;
        PERFORM setval('tidemark.notify_queue', looked);
    END IF;
    IF looked % 2 = 0 THEN
        RETURN true;
    END IF;
    PERFORM setval('tidemark.waiting', 0) FROM tidemark.waiting s WHERE s.last_value > 0;
    PERFORM setval('tidemark.awaited', 0) FROM tidemark.awaited s WHERE s.last_value > 0;
    PERFORM setval('tidemark.next_look', 0) FROM tidemark.next_look s WHERE s.last_value > 0;
    RETURN false;
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.may_notify FROM PUBLIC;

-- wait_for_work lets appends notify for the next p_ms milliseconds, a day at most, unless the NOTIFY queue fills.
-- The value grows with every wait, so ending an earlier wait does not end a later one.
CREATE OR REPLACE FUNCTION tidemark.wait_for_work(p_ms bigint) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT setval('tidemark.waiting', greatest(w.last_value + 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
        + least(greatest(p_ms, 0), 86400000))) FROM tidemark.waiting w WHERE tidemark.may_notify()
$$;
REVOKE EXECUTE ON FUNCTION tidemark.wait_for_work FROM PUBLIC;

-- end_wait ends a wait unless another has begun.
CREATE OR REPLACE FUNCTION tidemark.end_wait(p_wait bigint) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT setval('tidemark.waiting', 0) FROM tidemark.waiting w WHERE w.last_value = p_wait
$$;
REVOKE EXECUTE ON FUNCTION tidemark.end_wait FROM PUBLIC;

-- wake notifies waiting workers when the transaction commits. The payload is the wait that it ends,
-- so one NOTIFY is enough. A transaction that will be prepared (two-phase commit) must not notify:
-- SET tidemark.notify = off, and workers find the work when they poll.
CREATE OR REPLACE FUNCTION tidemark.wake() RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    waiting CONSTANT bigint := coalesce(pg_sequence_last_value('tidemark.waiting'), 0);
BEGIN
    IF waiting > extract(epoch FROM clock_timestamp()) * 1000
        AND coalesce(current_setting('tidemark.notify', true), '') <> 'off' THEN
        PERFORM pg_notify('tidemark_work', waiting::text);
    END IF;
END
$$;

-- await makes workers notify on tidemark_applied for so long. Read places after it: a commit that did
-- not notify is visible then, or about to be. Most calls find the time long enough and write nothing.
CREATE OR REPLACE FUNCTION tidemark.await(p_ms integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    until CONSTANT bigint := extract(epoch FROM clock_timestamp()) * 1000 + least(greatest(p_ms, 0), 10000);
BEGIN
    PERFORM setval('tidemark.awaited', until) FROM tidemark.awaited a
    WHERE a.last_value < until - p_ms / 2 AND tidemark.may_notify();
END
$$;

-- applied tells for each event and projection whether the projection has applied the event: applied,
-- waiting, failed, dead, paused, unregistered, or replaced: the append was rolled back, and another
-- event has its seq, or the journal lost it and ends before its position. For failed and dead, at_seq is
-- the event that stops the projection. event_id is the event's, NULL if it is not in the journal: another id
-- than before is another event.
-- A projection stands where its row of failed says, else at its group's checkpoint. Events that are not
-- for projections count as applied with those before them: no work item moves a checkpoint past them
-- at a campaign's end.
-- A projection across campaigns stands where its last partition does, and at_seq is a position. Only its
-- code knows the key of an event: that an earlier event holds the key back is not seen here.
CREATE OR REPLACE FUNCTION tidemark.applied(p_campaign_ids text[], p_seqs bigint[], p_positions bigint[],
        p_projections text[])
    RETURNS TABLE (state text, at_seq bigint, message text, event_id uuid)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    SELECT CASE
            WHEN p.state IS NULL THEN 'unregistered'
            WHEN j."position" <> w."position" OR w."position" > (SELECT last_value FROM tidemark.journal_position)
                THEN 'replaced'
            WHEN k.place >= w.seq OR j."position" IS NOT NULL AND NOT EXISTS (
                SELECT FROM tidemark.journal e WHERE e.campaign_id = w.campaign_id AND e.seq > k.place AND e.seq <= w.seq
                    AND e.intent = 'projection_and_replay' ORDER BY e.seq OFFSET 0) THEN 'applied'
            WHEN d.status IN ('failed', 'dead') THEN d.status
            WHEN x.message IS NOT NULL THEN 'paused'
            ELSE 'waiting' END,
        coalesce(d.next_seq, 0), CASE WHEN d.status IN ('failed', 'dead') THEN coalesce(d.error_message, '')
            ELSE coalesce(x.message, '') END,
        j.event_id
    FROM unnest(p_campaign_ids, p_seqs, p_positions, p_projections) WITH ORDINALITY
        AS w (campaign_id, seq, "position", projection, ord)
    LEFT JOIN LATERAL (
        SELECT p.consumer_group, p.state, p.scope FROM tidemark.projections p WHERE p.name = w.projection OFFSET 0
    ) p ON true
    LEFT JOIN LATERAL (
        SELECT j."position", j.event_id FROM tidemark.journal j
        WHERE j.campaign_id = w.campaign_id AND j.seq BETWEEN w.seq AND w.seq ORDER BY j.seq LIMIT 1
    ) j ON true
    LEFT JOIN LATERAL (
        (SELECT d.next_seq, d.status, d.error_message FROM tidemark.failed d
        WHERE p.scope = 'campaign' AND d.campaign_id = w.campaign_id AND d.projection = w.projection)
        UNION ALL
        (SELECT d.next_seq, d.status, d.error_message FROM tidemark.failed d
        WHERE p.scope = 'journal' AND d.projection = w.projection AND d.status IN ('failed', 'dead')
            AND d.next_seq BETWEEN w."position" AND w."position" ORDER BY d.next_seq LIMIT 1)
        UNION ALL
        (SELECT d.next_seq, d.status, d.error_message FROM tidemark.failed d
        WHERE p.scope = 'journal' AND d.projection = w.projection AND d.campaign_id = '-'
            AND d.next_seq < w."position" AND d.status IN ('failed', 'dead') ORDER BY d.campaign_id LIMIT 1)
    ) d ON true
    LEFT JOIN LATERAL (
        SELECT min(r."position") AS "position" FROM tidemark.readers r
        WHERE p.scope = 'journal' AND r.topic = w.projection AND r.kind = 'projection'
    ) r ON true
    LEFT JOIN LATERAL (
        SELECT l.checkpoint FROM tidemark.leases l
        WHERE l.consumer_group = p.consumer_group AND l.campaign_id = w.campaign_id OFFSET 0
    ) l ON true
    LEFT JOIN LATERAL (
        SELECT concat_ws(' ', 'the', x.scope, 'is paused by', x.actor, '(' || nullif(x.reason, '') || ')') AS message
        FROM (VALUES ('group', ''), ('projection', w.projection), ('campaign', w.campaign_id)) AS s (scope, name)
        JOIN LATERAL (
            SELECT * FROM tidemark.pauses x WHERE x.scope = s.scope AND x.consumer_group = p.consumer_group
                AND x.name = s.name AND x.expires_at > clock_timestamp() OFFSET 0
        ) x ON true
        LIMIT 1
    ) x ON true
    CROSS JOIN LATERAL (
        SELECT CASE WHEN p.state <> 'active' THEN 0 WHEN p.scope = 'campaign'
            THEN coalesce(d.next_seq - 1, l.checkpoint, 0)
            WHEN r."position" >= w."position" AND d.next_seq IS NULL THEN w.seq ELSE 0 END AS place
    ) k
    ORDER BY w.ord;
END
$$;
-- +goose StatementEnd

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP TRIGGER limits_apply ON tidemark.limits;
DROP TRIGGER journal_no_update ON tidemark.journal;
DROP TRIGGER journal_no_delete ON tidemark.journal;
DROP TRIGGER journal_deleted ON tidemark.journal;
DROP TRIGGER journal_no_truncate ON tidemark.journal;
DROP TRIGGER event_tags_no_update ON tidemark.event_tags;
DROP TRIGGER event_tags_no_truncate ON tidemark.event_tags;
DROP TRIGGER keys_end ON tidemark.keys;
DROP TRIGGER keys_ended ON tidemark.keys;
DROP TRIGGER operator_log_link ON tidemark.operator_log;
DROP TRIGGER operator_log_no_update ON tidemark.operator_log;
DROP TRIGGER operator_log_no_truncate ON tidemark.operator_log;
DROP TRIGGER projections_sign ON tidemark.projections;
DROP TRIGGER readers_insert ON tidemark.readers;
DROP TRIGGER readers_update ON tidemark.readers;
DROP TRIGGER readers_delete ON tidemark.readers;
DROP FUNCTION
    tidemark.abandon_erasure,
    tidemark.acquire_leases,
    tidemark.advance,
    tidemark.advance_reader,
    tidemark.all_before,
    tidemark.announce_look,
    tidemark.append(p_campaign_id text, p_events jsonb, p_expect bigint),
    tidemark.append(p_campaign_id text, p_events text, p_expect bigint),
    tidemark.append_all(p_batches jsonb),
    tidemark.append_all(p_batches text),
    tidemark.append_all_rows,
    tidemark.append_at(p_campaign_id text, p_due timestamptz, p_events jsonb, p_scheduled_by text),
    tidemark.append_at(p_campaign_id text, p_due timestamptz, p_events text, p_scheduled_by text),
    tidemark.append_expecting,
    tidemark.append_if(p_batches jsonb, p_condition jsonb, p_keep boolean),
    tidemark.append_if(p_batches text, p_condition text, p_keep boolean),
    tidemark.append_limits,
    tidemark.append_notice,
    tidemark.append_plain,
    tidemark.append_rows,
    tidemark.append_rows_of_snapshot,
    tidemark.append_scheduled,
    tidemark.appended_before,
    tidemark.applied,
    tidemark.apply_limits,
    tidemark.archive,
    tidemark.archive_lines,
    tidemark.archive_mark,
    tidemark.archived_after,
    tidemark.ask_restore,
    tidemark.await,
    tidemark.begin_change,
    tidemark.begin_erasure,
    tidemark.begin_manifest,
    tidemark.begin_session,
    tidemark.bound_wait,
    tidemark.cancel_for_operator,
    tidemark.cancel_scheduled,
    tidemark.check_batches,
    tidemark.check_event,
    tidemark.check_repeat,
    tidemark.check_types,
    tidemark.claim,
    tidemark.claim_around,
    tidemark.claim_failed,
    tidemark.claim_readers,
    tidemark.claim_recent,
    tidemark.claimed_campaigns,
    tidemark.claimed_checkpoints,
    tidemark.complete,
    tidemark.copy_faults,
    tidemark.count_campaigns,
    tidemark.count_erased,
    tidemark.create_token,
    tidemark.cut,
    tidemark.decided_events,
    tidemark.derive,
    tidemark.due_campaigns,
    tidemark.end_change,
    tidemark.end_erasure,
    tidemark.end_key,
    tidemark.end_session,
    tidemark.end_wait,
    tidemark.erasable,
    tidemark.erase,
    tidemark.erase_items,
    tidemark.erase_keys,
    tidemark.erase_scheduled,
    tidemark.erase_traces,
    tidemark.erased_form,
    tidemark.erased_hashes,
    tidemark.erased_of,
    tidemark.erasure_key,
    tidemark.event_fits,
    tidemark.event_texts,
    tidemark.event_within,
    tidemark.expecting_events,
    tidemark.failed_report,
    tidemark.fallen,
    tidemark.fence,
    tidemark.field_values,
    tidemark.find_event,
    tidemark.find_session,
    tidemark.fire_each,
    tidemark.fire_scheduled,
    tidemark.fire_together,
    tidemark.first_position,
    tidemark.fits_apart,
    tidemark.forget_key,
    tidemark.forget_keys,
    tidemark.forget_statistics,
    tidemark.gaps,
    tidemark.greatest_position,
    tidemark.group_lag,
    tidemark.guard_log,
    tidemark.guard_places,
    tidemark.hash_log,
    tidemark.history,
    tidemark.hold_back,
    tidemark.hold_erasure,
    tidemark.hold_floor,
    tidemark.holding_secrets,
    tidemark.holds,
    tidemark.import_erased,
    tidemark.instance,
    tidemark.is_archived,
    tidemark.is_erased,
    tidemark.keep_history,
    tidemark.keep_subjects,
    tidemark.keys_behind,
    tidemark.lag_report,
    tidemark.lease_ends,
    tidemark.leave_stubs,
    tidemark.link_log,
    tidemark.link_rows,
    tidemark.lock_campaign,
    tidemark.lock_campaigns,
    tidemark.lock_due,
    tidemark.lock_exclusively,
    tidemark.lock_key,
    tidemark.lock_keys,
    tidemark.lock_one,
    tidemark.lock_untagged,
    tidemark.log_act,
    tidemark.log_restored,
    tidemark.made_id,
    tidemark.may_notify,
    tidemark.merge_paths,
    tidemark.misfit,
    tidemark.move_readers,
    tidemark.nesting,
    tidemark.next_floor,
    tidemark.not_archivable,
    tidemark.note_crashes,
    tidemark.notices,
    tidemark.notify_queue_usage,
    tidemark.parsed_json,
    tidemark.printed_bytes,
    tidemark.prune_log,
    tidemark.put_back,
    tidemark.query_keys,
    tidemark.query_matches,
    tidemark.query_terms,
    tidemark.queue_report,
    tidemark.rarest_tag,
    tidemark.react,
    tidemark.read,
    tidemark.read_floor,
    tidemark.readable,
    tidemark.reader_lag,
    tidemark.refuse_archived,
    tidemark.refuse_call,
    tidemark.refuse_change,
    tidemark.refuse_event,
    tidemark.refuse_match,
    tidemark.refuse_position,
    tidemark.refuse_version,
    tidemark.release,
    tidemark.release_erasure,
    tidemark.renew,
    tidemark.repair_copy,
    tidemark.request_hash,
    tidemark.require_batch,
    tidemark.require_fresh_snapshot,
    tidemark.require_positions,
    tidemark.reschedule,
    tidemark.reschedule_for_operator,
    tidemark.restore,
    tidemark.resume,
    tidemark.retries_whole,
    tidemark.revoke_token,
    tidemark.rewrap_keys,
    tidemark.sample_pages,
    tidemark.schedule,
    tidemark.schedule_new,
    tidemark.scheduled_keys,
    tidemark.scheduled_report,
    tidemark.scheduled_sharing,
    tidemark.scheduled_with,
    tidemark.secret_hash,
    tidemark.sign_projection,
    tidemark.spoken,
    tidemark.stranded,
    tidemark.subject_keys,
    tidemark.subject_values,
    tidemark.tag_hashes,
    tidemark.tag_key,
    tidemark.tag_terms,
    tidemark.take_due,
    tidemark.take_over,
    tidemark.taken,
    tidemark.takes_kind,
    tidemark.tells,
    tidemark.touched_tags,
    tidemark.touched_types,
    tidemark.trust_wrapping_key,
    tidemark.type_key,
    tidemark.types_fit,
    tidemark.unchanged,
    tidemark.unlike,
    tidemark.until_due,
    tidemark.use_token,
    tidemark.valid_secrets,
    tidemark.wait_for_work,
    tidemark.wake,
    tidemark.walk_log,
    tidemark.without,
    tidemark.wrapping_key;
