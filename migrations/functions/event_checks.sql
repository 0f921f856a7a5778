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
