-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- State 'filing' lasts until every campaign that is behind has a work item. Appends write no work
-- items for a group in state 'inline', since they apply the events themselves, or 'across': its
-- projections are all across campaigns, and read the journal.
CREATE TABLE tidemark.consumer_groups (
    name          text COLLATE "C" PRIMARY KEY,
    state         text NOT NULL DEFAULT 'filing' CHECK (state IN ('filing', 'ready', 'inline', 'across')),
    registered_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE tidemark.consumer_groups IS
    'Consumer groups. Each append writes work items for those that are filing or ready.';
COMMENT ON COLUMN tidemark.consumer_groups.name IS 'name of the group';
COMMENT ON COLUMN tidemark.consumer_groups.state IS
    'filing until every campaign that is behind has a work item, then ready. inline: appends apply. across: all projections are across campaigns';
COMMENT ON COLUMN tidemark.consumer_groups.registered_at IS 'time of the registration';

-- One row stands for the events that one append added to a campaign (docs/adr/0011). Rows are
-- inserted and deleted, never updated. The lease of the campaign tells whether they are being
-- processed (docs/adr/0001).
CREATE TABLE tidemark.outbox (
    consumer_group text COLLATE "C" NOT NULL,
    campaign_id    text COLLATE "C" NOT NULL,
    seq            bigint           NOT NULL,
    enqueued_at    timestamptz      NOT NULL,
    events         integer          NOT NULL,
    PRIMARY KEY (consumer_group, campaign_id, seq)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.5,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE tidemark.outbox IS
    'Queue of work items: one row for each append, group and campaign (docs/adr/0011). Never updated (docs/adr/0001).';
COMMENT ON COLUMN tidemark.outbox.consumer_group IS 'group that has to apply the events';
COMMENT ON COLUMN tidemark.outbox.campaign_id IS 'campaign of the events';
COMMENT ON COLUMN tidemark.outbox.seq IS 'the last of the events';
COMMENT ON COLUMN tidemark.outbox.enqueued_at IS 'time of the append';
COMMENT ON COLUMN tidemark.outbox.events IS 'number of events. Those up to the checkpoint are already applied';

-- Half of each page stays free, so an updated lease stays on its page (HOT) without index writes.
-- Without deduplication, the index entries of a lease that vacuum cannot remove stand in the order of
-- their places even when they are read backwards (docs/adr/0020).
CREATE TABLE tidemark.leases (
    consumer_group text COLLATE "C" NOT NULL,
    campaign_id    text COLLATE "C" NOT NULL,
    owner          text COLLATE "C" NOT NULL,
    generation     bigint           NOT NULL,
    expires_at     timestamptz      NOT NULL,
    checkpoint     bigint           NOT NULL,
    applied        bigint           NOT NULL DEFAULT 0,
    applied_hash   bigint           DEFAULT 0,
    PRIMARY KEY (consumer_group, campaign_id) WITH (deduplicate_items = off)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE tidemark.leases IS
    'Ownership of campaigns in a group, and the checkpoint that it guards. Kept after release.';
COMMENT ON COLUMN tidemark.leases.consumer_group IS 'group';
COMMENT ON COLUMN tidemark.leases.campaign_id IS 'campaign';
COMMENT ON COLUMN tidemark.leases.owner IS 'worker that holds the lease or held it last, or paused';
COMMENT ON COLUMN tidemark.leases.generation IS 'fencing token, grows with each acquisition';
COMMENT ON COLUMN tidemark.leases.expires_at IS 'end of the lease, -infinity once it is released';
COMMENT ON COLUMN tidemark.leases.checkpoint IS 'last seq that the group has applied';
COMMENT ON COLUMN tidemark.leases.applied IS 'events that workers have read on the way to the checkpoint';
COMMENT ON COLUMN tidemark.leases.applied_hash IS
    'XOR of uuid_hash_extended(event_id, 0) over these events, NULL if unknown';

CREATE TABLE tidemark.workers (
    owner          text COLLATE "C" PRIMARY KEY,
    consumer_group text COLLATE "C" NOT NULL,
    host           text             NOT NULL,
    pid            integer          NOT NULL,
    started_at     timestamptz      NOT NULL,
    seen_at        timestamptz      NOT NULL,
    campaigns_held integer          NOT NULL,
    events_applied bigint           NOT NULL,
    knows          jsonb            NOT NULL DEFAULT '{}',
    lease_ttl      interval         NOT NULL DEFAULT '30 s',
    statements     jsonb            NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);
COMMENT ON TABLE tidemark.workers IS 'Worker processes. Each updates its row every second.';
COMMENT ON COLUMN tidemark.workers.owner IS 'random name of the process';
COMMENT ON COLUMN tidemark.workers.consumer_group IS 'group that it serves';
COMMENT ON COLUMN tidemark.workers.host IS 'host name';
COMMENT ON COLUMN tidemark.workers.pid IS 'process id';
COMMENT ON COLUMN tidemark.workers.started_at IS 'start of the process';
COMMENT ON COLUMN tidemark.workers.seen_at IS 'last update of the row';
COMMENT ON COLUMN tidemark.workers.campaigns_held IS 'leases that it holds';
COMMENT ON COLUMN tidemark.workers.events_applied IS 'events since its start';
COMMENT ON COLUMN tidemark.workers.knows IS 'projections that it has code for, with their versions';
COMMENT ON COLUMN tidemark.workers.lease_ttl IS 'duration of its leases';
COMMENT ON COLUMN tidemark.workers.statements IS 'hashes of the statements of its SQL files, by name/version';

-- The time, in milliseconds since 1970, until which a worker waits for a wake-up. A sequence is
-- visible at once, and idle workers and appends do not contend for it as they would for a row
-- (docs/adr/0002).
CREATE SEQUENCE tidemark.waiting AS bigint MINVALUE 0 START 0 CACHE 1;
COMMENT ON SEQUENCE tidemark.waiting IS 'Time, in milliseconds since 1970, until which a worker waits (docs/adr/0002).';

CREATE SEQUENCE tidemark.notify_queue AS bigint MINVALUE 0 START 0 CACHE 1;
COMMENT ON SEQUENCE tidemark.notify_queue IS
    'Twice the time, in milliseconds since 1970, of the last look at the server''s NOTIFY queue; odd: it was more than half full.';

-- limits bounds an event, a call and a transaction. It has one row, which only the schema's owner
-- changes. The CHECKs stay below the limits of Postgres itself.
CREATE TABLE tidemark.limits (
    only_row                  boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    payload_bytes             integer NOT NULL DEFAULT 1048576 CHECK (payload_bytes BETWEEN 2 AND 67108864),
    payload_depth             integer NOT NULL DEFAULT 128 CHECK (payload_depth BETWEEN 1 AND 1000),
    metadata_bytes            integer NOT NULL DEFAULT 65536 CHECK (metadata_bytes BETWEEN 2 AND 67108864),
    tags                      integer NOT NULL DEFAULT 64 CHECK (tags BETWEEN 0 AND 1024),
    tag_bytes                 integer NOT NULL DEFAULT 256 CHECK (tag_bytes BETWEEN 1 AND 1024),
    campaign_id_bytes         integer NOT NULL DEFAULT 256 CHECK (campaign_id_bytes BETWEEN 1 AND 1024),
    events_per_call           integer NOT NULL DEFAULT 10000 CHECK (events_per_call BETWEEN 1 AND 100000),
    campaigns_per_transaction integer NOT NULL DEFAULT 1000 CHECK (campaigns_per_transaction BETWEEN 1 AND 10000)
);
COMMENT ON TABLE tidemark.limits IS
    'Limits of events, calls and transactions: one row, which only the owner of the schema changes.';
COMMENT ON COLUMN tidemark.limits.only_row IS 'always true, so that there is one row';
COMMENT ON COLUMN tidemark.limits.payload_bytes IS 'maximum bytes in a payload';
COMMENT ON COLUMN tidemark.limits.payload_depth IS 'maximum depth of objects and arrays in a payload or metadata';
COMMENT ON COLUMN tidemark.limits.metadata_bytes IS 'maximum bytes in metadata';
COMMENT ON COLUMN tidemark.limits.tags IS 'maximum tags of an event';
COMMENT ON COLUMN tidemark.limits.tag_bytes IS 'maximum bytes in a tag';
COMMENT ON COLUMN tidemark.limits.campaign_id_bytes IS 'maximum bytes in a campaign id';
COMMENT ON COLUMN tidemark.limits.events_per_call IS 'maximum events in one call';
COMMENT ON COLUMN tidemark.limits.campaigns_per_transaction IS 'maximum campaigns in a transaction';

-- Reading the row would cost each append 10 µs. So every change replaces append_limits, a constant
-- that is inlined into plans. Only its owner can replace it.
-- +goose StatementBegin
CREATE FUNCTION tidemark.apply_limits() RETURNS trigger
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
-- +goose StatementEnd

CREATE TRIGGER limits_apply AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON tidemark.limits
    FOR EACH STATEMENT EXECUTE FUNCTION tidemark.apply_limits();
INSERT INTO tidemark.limits DEFAULT VALUES; -- creates append_limits

-- nesting returns the jsonpath that finds objects and arrays nested deeper than p_depth, empty ones
-- included.
-- +goose StatementBegin
CREATE FUNCTION tidemark.nesting(p_depth integer) RETURNS jsonpath
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ('strict $.**{' || p_depth || '} ? (@.type() == "object" || @.type() == "array")')::jsonpath;
-- +goose StatementEnd

-- printed_bytes returns the length of a document as Postgres prints it, or NULL if it cannot be
-- printed: 1e131071 takes 12 bytes in jsonb and 131,072 as text. Small documents can always be
-- printed.
-- +goose StatementBegin
CREATE FUNCTION tidemark.printed_bytes(p_document jsonb) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN octet_length(p_document::text);
EXCEPTION WHEN program_limit_exceeded OR internal_error OR data_corrupted THEN
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- readable reports whether Postgres can print an event's payload and metadata for a reader.
-- +goose StatementBegin
CREATE FUNCTION tidemark.readable(p_payload jsonb, p_metadata jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN tidemark.printed_bytes(p_payload) IS NOT NULL
        AND (p_metadata IS NULL OR tidemark.printed_bytes(p_metadata) IS NOT NULL);
-- +goose StatementEnd

-- types_fit reports whether an event certainly has only fields that append knows, each of its type. It does not
-- know leap years, nor every form of a UUID: false means that misfit must look.
-- +goose StatementBegin
CREATE FUNCTION tidemark.types_fit(p_event jsonb) RETURNS boolean
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
-- +goose StatementEnd

-- fits_apart is types_fit as a call of its own. Inlined, its parts would be set up for each append, used or not.
-- +goose StatementBegin
CREATE FUNCTION tidemark.fits_apart(p_event jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN tidemark.types_fit(p_event);
END
$$;
-- +goose StatementEnd

-- event_within reports whether an event whose types fit is certainly within all limits and has no reserved name.
-- It judges mostly by length: a short event is neither deep nor has long fields, and a number that expands is long.
-- false means that check_event must look. Callers use it in expressions, which are cheaper than queries.
-- +goose StatementBegin
CREATE FUNCTION tidemark.event_within(p_event jsonb) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN coalesce(p_event ->> 'type' NOT IN ('', 'events_erased')
        AND NOT coalesce(p_event -> 'metadata' ?| '{$erased,$archived}', false)
        AND coalesce(jsonb_typeof(p_event -> 'payload') = 'object', true)
            AND coalesce(jsonb_typeof(p_event -> 'metadata') = 'object', true)
        AND pg_column_size(p_event) < 65536
        AND (octet_length(p_event::text) <= (tidemark.append_limits())[9]
            OR octet_length((p_event - 'payload'::text)::text) <= (tidemark.append_limits())[9]
                AND octet_length((p_event -> 'payload')::text) <= (tidemark.append_limits())[3]
                AND NOT jsonb_path_exists(p_event -> 'payload', tidemark.nesting((tidemark.append_limits())[7]))),
                    false);
-- +goose StatementEnd

-- event_fits reports whether the types of an event certainly fit, and event_within.
-- +goose StatementBegin
CREATE FUNCTION tidemark.event_fits(p_event jsonb) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN coalesce(jsonb_typeof(p_event) = 'object' AND (jsonb_typeof(p_event -> 'type') = 'string'
        AND p_event - '{type,payload,metadata}'::text[] = '{}' OR tidemark.fits_apart(p_event)), false)
        AND tidemark.event_within(p_event);
-- +goose StatementEnd

-- misfit returns the first field that is unknown or of a wrong type, and what is wrong with it, or NULL. No
-- setting of the session changes how it reads a value.
-- +goose StatementBegin
CREATE FUNCTION tidemark.misfit(p_event jsonb) RETURNS text[]
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
-- +goose StatementEnd

-- refuse_event raises TM004 for one event.
-- +goose StatementBegin
CREATE FUNCTION tidemark.refuse_event(p_campaign_id text, p_ord bigint, p_event jsonb, p_field text, p_reason text)
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
-- +goose StatementEnd

-- check_types raises TM004 for the first of the events that has a field of a wrong type, or an unknown one.
-- +goose StatementBegin
CREATE FUNCTION tidemark.check_types(p_campaign_id text, p_events jsonb) RETURNS boolean
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
-- +goose StatementEnd

-- check_event checks an event that event_fits or event_within did not accept. It raises the first violation, or
-- returns true. With p_reserved it accepts the names that are reserved for erasures and archives.
-- +goose StatementBegin
CREATE FUNCTION tidemark.check_event(p_campaign_id text, p_ord bigint, p_event jsonb,
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
-- +goose StatementEnd

-- lock_campaign locks the numbering of one campaign until the transaction ends. Callers use it in
-- expressions, which are cheaper than queries. The lock function returns void, which is not NULL,
-- so the result is true.
-- +goose StatementBegin
CREATE FUNCTION tidemark.lock_campaign(p_campaign_id text) RETURNS boolean
    LANGUAGE sql
    RETURN pg_advisory_xact_lock(tidemark.lock_key(32002, hashtextextended(p_campaign_id, 0))) IS NOT NULL;
-- +goose StatementEnd

-- count_campaigns returns how many campaigns this transaction has locked. It raises TM011 if these
-- and p_campaign_ids together exceed the limit. It reads the whole lock table, so callers use it
-- only near the limit. It then stores the true count in the setting tidemark.floor.
-- +goose StatementBegin
CREATE FUNCTION tidemark.count_campaigns(p_campaign_ids text[]) RETURNS integer
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
-- +goose StatementEnd

-- lock_campaigns locks the numbering of campaigns until the transaction ends. Each campaign has its
-- own lock, taken in the order of the keys, so it waits for no other campaign.
-- +goose StatementBegin
CREATE FUNCTION tidemark.lock_campaigns(p_campaign_ids text[]) RETURNS void
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
-- +goose StatementEnd

-- Lock keys for conditions (docs/adr/0008), held until the transaction ends. An append takes shared
-- locks on the buckets of its event types and on each tag, alone and combined with the type. A
-- condition takes the same keys exclusively. The key of a tag alone has a NULL type.
-- +goose StatementBegin
CREATE FUNCTION tidemark.type_key(p_type text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN tidemark.lock_key(32006, 0) | (hashtextextended(p_type, 0) & 63);
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION tidemark.tag_key(p_tag text, p_type text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN tidemark.lock_key(32007, hashtextextended(p_tag, coalesce(hashtextextended(p_type, 0), 0)));
-- +goose StatementEnd

-- touched_types and touched_tags return the keys that events touch. For more than 256 events
-- touched_types returns all 64 buckets without reading the types. A single event, the usual case,
-- is handled by expressions alone, which cost a tenth of a query.
-- +goose StatementBegin
CREATE FUNCTION tidemark.touched_types(p_events jsonb) RETURNS bigint[]
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
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION tidemark.touched_tags(p_events jsonb) RETURNS bigint[]
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
-- +goose StatementEnd

-- lock_exclusively locks keys, then campaigns. Keys are locked in ascending order, and of equal
-- keys the exclusive lock comes first: upgrading a shared lock can deadlock. Other appends queue
-- behind a waiting exclusive request, so each wait ends after 300 ms. Then the call gives back all
-- its locks, lets the others go on, and retries for 10 s or for the caller's lock_timeout.
-- +goose StatementBegin
CREATE FUNCTION tidemark.lock_exclusively(p_shared bigint[], p_exclusive bigint[], p_campaigns text[],
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
-- +goose StatementEnd

-- bound_wait makes the waits for locks that follow end after 10 s with 55P03, unless the session has a
-- lock_timeout. It returns the setting, which the caller puts back; a rollback does that too.
-- +goose StatementBegin
CREATE FUNCTION tidemark.bound_wait() RETURNS text
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
-- +goose StatementEnd

-- lock_keys locks keys, then campaigns: keys of types and tags shared, keys of conditions
-- exclusively. A transaction takes at most 64 locks on tags, so an import cannot exhaust the lock
-- table. Beyond that, events lock whole buckets of tags exclusively, and conditions on tags lock
-- all buckets of types, and so every append. A transaction that locks a tag exclusively also locks
-- the tag's bucket, shared, and so conflicts with an import. Appends with few tags do not.
-- +goose StatementBegin
CREATE FUNCTION tidemark.lock_keys(p_types bigint[], p_tags bigint[], p_exclusive bigint[],
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
-- +goose StatementEnd

-- refuse_version raises TM001: the campaign is not at the expected seq. It never returns. Its
-- return type lets it be used where a seq is expected.
-- +goose StatementBegin
CREATE FUNCTION tidemark.refuse_version(p_campaign_id text, p_expected bigint, p_actual bigint) RETURNS bigint
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
-- +goose StatementEnd

-- refuse_archived raises TM014: the campaign's events are in an archive (migrations/00016_archives.sql).
-- The stub's version 0, which no append can write, says so. It never returns, as refuse_version.
-- +goose StatementBegin
CREATE FUNCTION tidemark.refuse_archived(p_campaign_id text, p_metadata jsonb) RETURNS bigint
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
-- +goose StatementEnd

-- refuse_position raises TM016: the position that an append got belongs to another event, because the
-- sequence is behind the journal. It never returns, as refuse_version. Sequences are not rolled back, so
-- refused appends would move this one past the journal's positions, but perhaps not past places of
-- readers, who would never see what follows. So hold_back puts the sequence back to where it was.
-- +goose StatementBegin
CREATE FUNCTION tidemark.refuse_position() RETURNS bigint
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
-- +goose StatementEnd

-- first_position returns the first position, for a sequence that has never been called: in a copy of an
-- empty schema it begins at 0. It raises TM016 if the database has positions already.
-- +goose StatementBegin
CREATE FUNCTION tidemark.first_position() RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN CASE WHEN tidemark.hold_back() THEN tidemark.refuse_position()
        ELSE nextval('tidemark.journal_position') END;
END
$$;
-- +goose StatementEnd

-- lock_untagged locks the key of a type, shared, which conditions on untagged events take
-- exclusively. Then it locks the campaign. Like lock_campaign it is used in expressions, as are
-- hold_floor and made_id.
-- +goose StatementBegin
CREATE FUNCTION tidemark.lock_untagged(p_campaign_id text, p_type text) RETURNS boolean
    LANGUAGE sql
    RETURN pg_advisory_xact_lock_shared(tidemark.type_key(p_type)) IS NOT NULL
        AND tidemark.lock_campaign(p_campaign_id);
-- +goose StatementEnd

-- next_floor returns the setting tidemark.floor after one more call.
-- +goose StatementBegin
CREATE FUNCTION tidemark.next_floor(p_last bigint, p_held bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    RETURN greatest(0, least(coalesce(p_last, 0), p_held & 281474976710655)) |
        ((least(greatest(coalesce(p_held >> 48, 0), 0), 32766) + 1) << 48);
-- +goose StatementEnd

-- hold_floor takes the writer floor and returns the time. It reads the last value first, then takes
-- the lock that names it. nextval follows only in a later statement: see tidemark.read_floor.
-- A transaction's first floor is below all its positions, so later calls reuse it. The setting
-- tidemark.floor keeps it, and is rolled back together with the lock, at the end of the transaction
-- or savepoint. Any caller can set it, so the lock is always taken, and never above the last value.
-- From bit 48 on the setting counts calls, one campaign each. Above the limit of campaigns it calls
-- count_campaigns.
-- +goose StatementBegin
CREATE FUNCTION tidemark.hold_floor() RETURNS timestamptz
    LANGUAGE sql
    RETURN CASE WHEN pg_advisory_xact_lock_shared(tidemark.lock_key(32001,
        set_config('tidemark.floor', tidemark.next_floor(
        pg_sequence_last_value('tidemark.journal_position'),
            nullif(current_setting('tidemark.floor', true), '')::bigint)::text, true)::bigint)) IS NOT NULL
        AND (current_setting('tidemark.floor')::bigint >> 48 <= (tidemark.append_limits())[8]
            OR tidemark.count_campaigns('{}') IS NOT NULL) THEN clock_timestamp() END;
-- +goose StatementEnd

-- made_id returns a UUIDv7 (RFC 9562): milliseconds, then a 12-bit counter that carries into them,
-- then p_tail as text: the variant and 14 random bits, then 48 bits, which in the journal are the
-- event's position (tidemark.find_event).
-- +goose StatementBegin
CREATE FUNCTION tidemark.made_id(p_ms bigint, p_ord bigint, p_tail text) RETURNS uuid
    LANGUAGE sql IMMUTABLE
    RETURN (lpad(to_hex((p_ms + (p_ord >> 12) << 16) | 28672 | (p_ord & 4095)), 16, '0') || p_tail)::uuid;
-- +goose StatementEnd

-- appended_before returns true if all events of an append are in the journal of the campaign, by their ids, and
-- false if none is. It raises TM002 for another content, or for an id that is given twice, and TM003 for some
-- of them. An erased event has only its type left. A repeat has a trace of its own, which may differ.
-- +goose StatementBegin
CREATE FUNCTION tidemark.appended_before(p_campaign_id text, p_events jsonb) RETURNS boolean
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
-- +goose StatementEnd

-- append_rows numbers events and writes them. The caller holds the locks. Users call append or
-- append_all instead. Only erasures and imports pass p_reserved: see check_event.
-- +goose StatementBegin
CREATE FUNCTION tidemark.append_rows(p_campaign_id text, p_events jsonb, p_expect bigint,
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
            aggregate_type, aggregate_id, actor,
            tags, payload, metadata, payload_bytes, occurred_at, recorded_at)
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
-- +goose StatementEnd

-- append_rows_of_snapshot is append_rows for REPEATABLE READ and SERIALIZABLE, whose snapshot may
-- be older than the lock on the campaign. A seq that is then already taken raises 40001, the error
-- on which clients retry such transactions. So does the lock on the last event, if the campaign was
-- archived meanwhile. The campaign's own lock is held, so nothing else waits for that one.
-- +goose StatementBegin
CREATE FUNCTION tidemark.append_rows_of_snapshot(p_campaign_id text, p_events jsonb, p_expect bigint)
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
-- +goose StatementEnd

-- refuse_call raises TM004 for an invalid call for one campaign.
-- +goose StatementBegin
CREATE FUNCTION tidemark.refuse_call(p_campaign_id text, p_events jsonb) RETURNS void
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
-- +goose StatementEnd

-- append adds events to a campaign in the caller's transaction. p_events is an array of objects
-- with "type" and the optional fields "id", "version", "intent", "aggregate_type", "aggregate_id",
-- "actor", "tags", "payload", "metadata" and "occurred_at", a time of RFC 3339. An empty text is none.
-- p_expect is the seq at which the campaign must be: NULL for any, 0 for a campaign without events.
-- +goose StatementBegin
CREATE FUNCTION tidemark.append(p_campaign_id text, p_events jsonb, p_expect bigint DEFAULT NULL)
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
-- +goose StatementEnd

-- parsed_json casts text to jsonb. A document too deep for Postgres' own parser (54001) raises
-- TM004 instead.
-- +goose StatementBegin
CREATE FUNCTION tidemark.parsed_json(p_document text) RETURNS jsonb
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

-- append with text serves calls with a literal or an untyped parameter. A caller that casts to
-- jsonb itself pays less.
-- +goose StatementBegin
CREATE FUNCTION tidemark.append(p_campaign_id text, p_events text, p_expect bigint DEFAULT NULL)
    RETURNS TABLE (seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE sql
BEGIN ATOMIC
    SELECT * FROM tidemark.append(p_campaign_id, tidemark.parsed_json(p_events), p_expect);
END;
-- +goose StatementEnd

-- notify_queue_usage returns how full the NOTIFY queue is, from 0 to 1. All databases of the server share it.
-- +goose StatementBegin
CREATE FUNCTION tidemark.notify_queue_usage() RETURNS double precision
    LANGUAGE sql
BEGIN ATOMIC
    SELECT pg_notification_queue_usage();
END;
-- +goose StatementEnd

-- may_notify reports whether the NOTIFY queue is at most half full. A commit that notifies fails once it is full.
-- Then this ends all announced waits, so commits do not notify and programs poll. It looks once a second, for all
-- programs: a look takes a lock that all commits with notifications share.
-- +goose StatementBegin
CREATE FUNCTION tidemark.may_notify() RETURNS boolean
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
-- +goose StatementEnd

-- wait_for_work lets appends notify for the next p_ms milliseconds, a day at most, unless the NOTIFY queue fills.
-- The value grows with every wait, so ending an earlier wait does not end a later one.
-- +goose StatementBegin
CREATE FUNCTION tidemark.wait_for_work(p_ms bigint) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT setval('tidemark.waiting', greatest(w.last_value + 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
        + least(greatest(p_ms, 0), 86400000))) FROM tidemark.waiting w WHERE tidemark.may_notify()
$$;
-- +goose StatementEnd

-- end_wait ends a wait unless another has begun.
-- +goose StatementBegin
CREATE FUNCTION tidemark.end_wait(p_wait bigint) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT setval('tidemark.waiting', 0) FROM tidemark.waiting w WHERE w.last_value = p_wait
$$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION tidemark.may_notify, tidemark.wait_for_work, tidemark.end_wait FROM PUBLIC;

-- wake notifies waiting workers when the transaction commits. The payload is the wait that it ends,
-- so one NOTIFY is enough. A transaction that will be prepared (two-phase commit) must not notify:
-- SET tidemark.notify = off, and workers find the work when they poll.
-- +goose StatementBegin
CREATE FUNCTION tidemark.wake() RETURNS void
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
-- +goose StatementEnd

-- append_all_rows is append_rows for several campaigns.
-- +goose StatementBegin
CREATE FUNCTION tidemark.append_all_rows(p_batches jsonb)
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
-- +goose StatementEnd

-- check_batches raises TM004 for an invalid call for several campaigns. Otherwise it returns true.
-- +goose StatementBegin
CREATE FUNCTION tidemark.check_batches(p_batches jsonb) RETURNS boolean
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
-- +goose StatementEnd

-- append_all is append for several campaigns in one call. p_batches is an array of {"campaign_id",
-- "events", "expect"}.
-- +goose StatementBegin
CREATE FUNCTION tidemark.append_all(p_batches jsonb)
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
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION tidemark.append_all(p_batches text)
    RETURNS TABLE (campaign_id text, seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE sql
BEGIN ATOMIC
    SELECT * FROM tidemark.append_all(tidemark.parsed_json(p_batches));
END;
-- +goose StatementEnd

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP FUNCTION tidemark.append_all(text);
DROP FUNCTION tidemark.append_all(jsonb);
DROP FUNCTION tidemark.check_batches;
DROP FUNCTION tidemark.append_all_rows;
DROP FUNCTION tidemark.wake;
DROP FUNCTION tidemark.append(text, text, bigint);
DROP FUNCTION tidemark.parsed_json;
DROP FUNCTION tidemark.append(text, jsonb, bigint);
DROP FUNCTION tidemark.refuse_call;
DROP FUNCTION tidemark.append_rows_of_snapshot;
DROP FUNCTION tidemark.append_rows;
DROP FUNCTION tidemark.appended_before;
DROP FUNCTION tidemark.made_id;
DROP FUNCTION tidemark.hold_floor;
DROP FUNCTION tidemark.next_floor;
DROP FUNCTION tidemark.lock_untagged;
DROP FUNCTION tidemark.first_position;
DROP FUNCTION tidemark.refuse_position;
DROP FUNCTION tidemark.refuse_archived;
DROP FUNCTION tidemark.refuse_version;
DROP FUNCTION tidemark.bound_wait;
DROP FUNCTION tidemark.lock_keys;
DROP FUNCTION tidemark.lock_exclusively;
DROP FUNCTION tidemark.touched_tags;
DROP FUNCTION tidemark.touched_types;
DROP FUNCTION tidemark.tag_key;
DROP FUNCTION tidemark.type_key;
DROP FUNCTION tidemark.lock_campaigns;
DROP FUNCTION tidemark.count_campaigns;
DROP FUNCTION tidemark.lock_campaign;
DROP FUNCTION tidemark.check_event;
DROP FUNCTION tidemark.check_types;
DROP FUNCTION tidemark.refuse_event;
DROP FUNCTION tidemark.misfit;
DROP FUNCTION tidemark.event_fits;
DROP FUNCTION tidemark.event_within;
DROP FUNCTION tidemark.fits_apart;
DROP FUNCTION tidemark.types_fit;
DROP FUNCTION tidemark.readable;
DROP FUNCTION tidemark.printed_bytes;
DROP FUNCTION tidemark.nesting;
DROP FUNCTION tidemark.append_limits;
DROP TABLE tidemark.limits;
DROP FUNCTION tidemark.apply_limits;
DROP FUNCTION tidemark.end_wait;
DROP FUNCTION tidemark.wait_for_work;
DROP FUNCTION tidemark.may_notify;
DROP FUNCTION tidemark.notify_queue_usage;
DROP SEQUENCE tidemark.notify_queue;
DROP SEQUENCE tidemark.waiting;
DROP TABLE tidemark.workers;
DROP TABLE tidemark.leases;
DROP TABLE tidemark.outbox;
DROP TABLE tidemark.consumer_groups;
