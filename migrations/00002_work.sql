-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- A group is 'filing' until every campaign that is behind has a work item. Appends do not enqueue for one that is 'inline': they apply.
CREATE TABLE tidemark.consumer_groups (
    name          text COLLATE "C" PRIMARY KEY,
    state         text NOT NULL DEFAULT 'filing' CHECK (state IN ('filing', 'ready', 'inline')),
    registered_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- A row stands for the events of a campaign that one append has added (docs/adr/0011). Rows are inserted and deleted, never updated: whether one is being processed follows
-- from its campaign's lease (docs/adr/0001).
CREATE TABLE tidemark.outbox (
    consumer_group text COLLATE "C" NOT NULL,
    campaign_id    text COLLATE "C" NOT NULL,
    seq            bigint           NOT NULL, -- of the last of the events
    enqueued_at    timestamptz      NOT NULL,
    events         integer          NOT NULL, -- how many they are; those up to the campaign's checkpoint are applied already
    PRIMARY KEY (consumer_group, campaign_id, seq)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.5,
    autovacuum_vacuum_cost_delay = 0
);

-- Room on every page keeps the updates of a lease on its page (HOT), without index writes.
CREATE TABLE tidemark.leases (
    consumer_group text COLLATE "C" NOT NULL,
    campaign_id    text COLLATE "C" NOT NULL,
    owner          text COLLATE "C" NOT NULL,
    generation     bigint           NOT NULL,
    expires_at     timestamptz      NOT NULL,
    checkpoint     bigint           NOT NULL,
    applied        bigint           NOT NULL DEFAULT 0, -- events that workers have gone through on the way to the checkpoint
    applied_hash   bigint           DEFAULT 0,          -- of their ids: uuid_hash_extended(event_id, 0), all XORed, so that the order is of no matter; NULL: not known
    PRIMARY KEY (consumer_group, campaign_id)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

CREATE TABLE tidemark.workers (
    owner          text COLLATE "C" PRIMARY KEY,
    consumer_group text COLLATE "C" NOT NULL,
    host           text             NOT NULL,
    pid            integer          NOT NULL,
    started_at     timestamptz      NOT NULL,
    seen_at        timestamptz      NOT NULL,
    campaigns_held integer          NOT NULL,
    events_applied bigint           NOT NULL
) WITH (fillfactor = 50);

-- The time, in milliseconds since 1970, until which some worker waits to be woken. A sequence, since it must be
-- visible at once and must not be a row that every idle worker and every append fight for (docs/adr/0002).
CREATE SEQUENCE tidemark.waiting AS bigint MINVALUE 0 START 0 CACHE 1;

-- append_limits reads the limits, which ALTER DATABASE … SET tidemark.max_… may have changed, in one expression: bytes of a campaign id, events a call, bytes of a payload, bytes of metadata, tags, bytes
-- of a tag, depth of payload and metadata.
-- +goose StatementBegin
CREATE FUNCTION tidemark.append_limits() RETURNS integer[]
    LANGUAGE sql STABLE
    RETURN ARRAY[
        coalesce(nullif(current_setting('tidemark.max_campaign_id_bytes', true), '')::integer, 256),
        coalesce(nullif(current_setting('tidemark.max_events_per_call', true), '')::integer, 10000),
        coalesce(nullif(current_setting('tidemark.max_payload_bytes', true), '')::integer, 1048576),
        coalesce(nullif(current_setting('tidemark.max_metadata_bytes', true), '')::integer, 65536),
        coalesce(nullif(current_setting('tidemark.max_tags', true), '')::integer, 64),
        coalesce(nullif(current_setting('tidemark.max_tag_bytes', true), '')::integer, 256),
        coalesce(nullif(current_setting('tidemark.max_payload_depth', true), '')::integer, 128)
    ];
-- +goose StatementEnd

-- refuse_event says what is wrong with one event of an append. It is called only for a bad one. What it refuses could not be read back: the
-- length of a number is that of its text, 1e131071 takes 12 bytes in jsonb and 131,072 on the way to a reader.
-- +goose StatementBegin
CREATE FUNCTION tidemark.refuse_event(p_campaign_id text, p_ord bigint, p_type text, p_version integer, p_intent text, p_payload jsonb, p_metadata jsonb,
    p_tags text[], p_occurred_at timestamptz, p_labels text) RETURNS jsonb
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    field text;
    reason text;
    limits CONSTANT integer[] := tidemark.append_limits();
    max_payload integer := limits[3];
    max_metadata integer := limits[4];
    max_depth integer := limits[7];
    max_tags integer := limits[5];
    max_tag integer := limits[6];
BEGIN
    IF p_type IS NULL OR p_type = '' THEN
        field := 'type'; reason := 'is missing: name what happened, e.g. "order_placed"';
    ELSIF octet_length(p_type) > 256 THEN
        field := 'type'; reason := format('has %s bytes, the limit is 256', octet_length(p_type));
    ELSIF p_version < 1 THEN
        field := 'version'; reason := format('is %s, versions start at 1', p_version);
    ELSIF p_intent NOT IN ('projection_and_replay', 'replay_only', 'audit_only') THEN
        field := 'intent'; reason := format('is %L, known are projection_and_replay, replay_only, audit_only', left(p_intent, 64));
    ELSIF p_payload IS NULL OR jsonb_typeof(p_payload) <> 'object' THEN
        field := 'payload'; reason := format('is a JSON %s, it must be an object', coalesce(jsonb_typeof(p_payload), 'null'));
    ELSIF octet_length(p_payload::text) > max_payload THEN
        field := 'payload'; reason := format('has %s bytes, the limit is %s (tidemark.max_payload_bytes): store the bulk elsewhere and append a reference', octet_length(p_payload::text), max_payload);
    ELSIF jsonb_path_exists(p_payload, format('strict $.**{%s}', max_depth + 1)::jsonpath, silent => true) THEN
        field := 'payload'; reason := format('is nested deeper than %s levels (tidemark.max_payload_depth)', max_depth);
    ELSIF jsonb_typeof(p_metadata) <> 'object' THEN
        field := 'metadata'; reason := format('is a JSON %s, it must be an object', jsonb_typeof(p_metadata));
    ELSIF octet_length(p_metadata::text) > max_metadata THEN
        field := 'metadata'; reason := format('has %s bytes, the limit is %s (tidemark.max_metadata_bytes)', octet_length(p_metadata::text), max_metadata);
    ELSIF jsonb_path_exists(p_metadata, format('strict $.**{%s}', max_depth + 1)::jsonpath, silent => true) THEN
        field := 'metadata'; reason := format('is nested deeper than %s levels (tidemark.max_payload_depth)', max_depth);
    ELSIF array_ndims(p_tags) > 1 THEN
        field := 'tags'; reason := 'are an array of arrays, they must be an array of strings';
    ELSIF cardinality(p_tags) > max_tags THEN
        field := 'tags'; reason := format('are %s, the limit is %s (tidemark.max_tags)', cardinality(p_tags), max_tags);
    ELSIF EXISTS (SELECT FROM unnest(p_tags) AS t (tag) WHERE tag IS NULL OR tag = '' OR octet_length(tag) > max_tag) THEN
        field := 'tags'; reason := format('hold one that is empty or longer than %s bytes (tidemark.max_tag_bytes)', max_tag);
    ELSIF p_occurred_at < '0001-01-01 00:00Z' OR p_occurred_at >= '10000-01-01 00:00Z' THEN
        field := 'occurred_at'; reason := format('is %s, it must be in the years 1 to 9999', p_occurred_at);
    ELSIF octet_length(p_labels) > 768 THEN
        field := 'aggregate_type, aggregate_id, actor'; reason := 'are longer than 256 bytes each';
    ELSE
        field := 'event'; reason := 'is refused';
    END IF;
    RAISE EXCEPTION 'event % (%) of campaign %: % %', p_ord - 1, coalesce(left(p_type, 64), 'no type'), left(p_campaign_id, 64), field, reason
        USING ERRCODE = 'TM004', DETAIL = jsonb_build_object('campaign', left(p_campaign_id, 256), 'index', p_ord - 1, 'type', left(p_type, 256), 'field', field, 'reason', reason)::text;
END
$$;
-- +goose StatementEnd

-- lock_campaign makes the numbering of one campaign exclusive to this transaction until it ends. It stands in expressions, which are cheaper than queries. What locks return is void, which is not NULL: so the
-- locks are taken one after the other, and it is true.
-- +goose StatementBegin
CREATE FUNCTION tidemark.lock_campaign(p_campaign_id text) RETURNS boolean
    LANGUAGE sql
    RETURN pg_advisory_xact_lock_shared(tidemark.lock_key(32004, 0) | (hashtextextended(p_campaign_id, 0) & 63)) IS NOT NULL
        AND pg_advisory_xact_lock(tidemark.lock_key(32002, hashtextextended(p_campaign_id, 0))) IS NOT NULL;
-- +goose StatementEnd

-- lock_campaigns makes the numbering of campaigns exclusive to this transaction until it ends. Locks are taken in one
-- order. A call with many campaigns takes whole buckets instead, so that no import can exhaust the lock table.
-- +goose StatementBegin
CREATE FUNCTION tidemark.lock_campaigns(p_campaign_ids text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    taken boolean;
BEGIN
    IF cardinality(p_campaign_ids) = 1 THEN
        taken := tidemark.lock_campaign(p_campaign_ids[1]);
    ELSIF cardinality(p_campaign_ids) > 256 THEN
        PERFORM pg_advisory_xact_lock(tidemark.lock_key(32004, bucket))
        FROM (SELECT DISTINCT hashtextextended(id, 0) & 63 AS bucket FROM unnest(p_campaign_ids) AS c (id) ORDER BY 1) AS b;
    ELSE
        PERFORM pg_advisory_xact_lock_shared(tidemark.lock_key(32004, bucket))
        FROM (SELECT DISTINCT hashtextextended(id, 0) & 63 AS bucket FROM unnest(p_campaign_ids) AS c (id) ORDER BY 1) AS b;
        PERFORM pg_advisory_xact_lock(key)
        FROM (SELECT DISTINCT tidemark.lock_key(32002, hashtextextended(id, 0)) AS key FROM unnest(p_campaign_ids) AS c (id) ORDER BY 1) AS k;
    END IF;
END
$$;
-- +goose StatementEnd

-- What an append locks for the sake of conditions (docs/adr/0008), until its transaction ends: shared, the buckets of its events' types, and each tag, alone and with the
-- type. A condition takes the same keys exclusively. That of a tag alone has no type.
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

-- touched_types and touched_tags answer the keys that events touch. Of many events the types are not looked at: all buckets are locked. One event, which most calls have, is
-- looked at by expressions alone, which cost a tenth of a query.
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
    RETURN array(SELECT DISTINCT tidemark.type_key(e.event ->> 'type') FROM jsonb_array_elements(p_events) AS e (event));
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
            keys := keys || tidemark.tag_key(one -> 'tags' ->> n, NULL) || tidemark.tag_key(one -> 'tags' ->> n, one ->> 'type');
        END LOOP;
    ELSIF jsonb_path_exists(p_events, '$[*].tags[*]') THEN
        keys := array(
            SELECT DISTINCT tidemark.tag_key(t.tag, k.event_type)
            FROM jsonb_to_recordset(p_events) AS e (type text, tags text[])
            CROSS JOIN LATERAL unnest(e.tags) AS t (tag)
            CROSS JOIN LATERAL (VALUES (NULL), (e.type)) AS k (event_type));
    END IF;
    RETURN keys;
END
$$;
-- +goose StatementEnd

-- lock_keys takes keys in one order, as strongly as anyone asks: those of types and tags shared, those of conditions exclusively. A transaction holds 64 locks on tags at most, so that no import can
-- exhaust the lock table. From then on events lock whole buckets of tags, exclusively, and conditions all types, that is, every append. Whoever locks a tag exclusively holds its bucket with it, shared, and so
-- meets the import; appends with few tags do not.
-- +goose StatementBegin
CREATE FUNCTION tidemark.lock_keys(p_types bigint[], p_tags bigint[], p_exclusive bigint[] DEFAULT '{}') RETURNS boolean
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
                UNION SELECT tidemark.lock_key(32006, bucket) FROM unnest(p_exclusive) AS k (key), generate_series(0, 63) AS bucket WHERE k.key >> 48 = 32007);
        ELSE
            PERFORM set_config('tidemark.tags_locked', tags::text, true);
        END IF;
    END IF;
    -- Of one key the stronger first: whoever has it shared must not ask for more.
    PERFORM CASE WHEN k.n > cardinality(shared) THEN pg_advisory_xact_lock(k.key)::text ELSE pg_advisory_xact_lock_shared(k.key)::text END
    FROM (SELECT u.key, u.n FROM unnest(shared || p_exclusive) WITH ORDINALITY AS u (key, n) ORDER BY u.key, u.n DESC) AS k;
    RETURN true;
END
$$;
-- +goose StatementEnd

-- refuse_version says that a campaign does not stand where an append expects it. It never answers; its type lets it stand where a seq is wanted.
-- +goose StatementBegin
CREATE FUNCTION tidemark.refuse_version(p_campaign_id text, p_expected bigint, p_actual bigint) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'campaign % is at seq %, the append expects it at %', left(p_campaign_id, 64), p_actual, p_expected
        USING ERRCODE = 'TM001', HINT = 'read the new events, decide again, append again',
            DETAIL = jsonb_build_object('campaign', left(p_campaign_id, 256), 'expected', p_expected, 'actual', p_actual)::text;
END
$$;
-- +goose StatementEnd

-- limits_set says whether any limit is or was set for this database, role or session.
-- +goose StatementBegin
CREATE FUNCTION tidemark.limits_set() RETURNS boolean
    LANGUAGE sql STABLE
    RETURN coalesce(current_setting('tidemark.max_campaign_id_bytes', true), current_setting('tidemark.max_events_per_call', true),
        current_setting('tidemark.max_payload_bytes', true), current_setting('tidemark.max_metadata_bytes', true), current_setting('tidemark.max_tags', true),
        current_setting('tidemark.max_tag_bytes', true), current_setting('tidemark.max_payload_depth', true)) IS NOT NULL;
-- +goose StatementEnd

-- lock_untagged takes what conditions on untagged events of one type wait for, and then the campaign. It, hold_floor and made_id stand in expressions too.
-- +goose StatementBegin
CREATE FUNCTION tidemark.lock_untagged(p_campaign_id text, p_type text) RETURNS boolean
    LANGUAGE sql
    RETURN pg_advisory_xact_lock_shared(tidemark.type_key(p_type)) IS NOT NULL AND tidemark.lock_campaign(p_campaign_id);
-- +goose StatementEnd

-- hold_floor takes the writer floor and answers the time. The last value first, then the lock that names it, and only in a later statement nextval: see tidemark.read_floor. A transaction's first floor is below
-- all its positions, so it takes no other: the setting says which it is, and goes when the lock goes, with the transaction or the savepoint. Anybody may set it, so the lock is taken in any case, and never
-- above the last value.
-- +goose StatementBegin
CREATE FUNCTION tidemark.hold_floor() RETURNS timestamptz
    LANGUAGE sql
    RETURN CASE WHEN pg_advisory_xact_lock_shared(tidemark.lock_key(32001, 0) | set_config('tidemark.floor', greatest(0, least(coalesce(pg_sequence_last_value('tidemark.journal_position'), 0),
        nullif(current_setting('tidemark.floor', true), '')::bigint))::text, true)::bigint) IS NOT NULL THEN clock_timestamp() END;
-- +goose StatementEnd

-- made_id answers a UUIDv7 (RFC 9562): milliseconds, a counter of 12 bits that carries into them, 62 random bits, of which the text begins with the variant.
-- +goose StatementBegin
CREATE FUNCTION tidemark.made_id(p_ms bigint, p_ord bigint, p_random text) RETURNS uuid
    LANGUAGE sql IMMUTABLE
    RETURN (lpad(to_hex((p_ms + (p_ord >> 12) << 16) | 28672 | (p_ord & 4095)), 16, '0') || p_random)::uuid;
-- +goose StatementEnd

-- append adds events to a campaign, in the caller's transaction. p_events is an array of objects with "type" and, all optional,
-- "id", "version", "intent", "aggregate_type", "aggregate_id", "actor", "tags", "payload", "metadata", "occurred_at".
-- p_expect is the seq the campaign must stand at: NULL for any, 0 for a campaign without events.
-- p_checked is a client's that has checked the events as the Go package does; where limits are set for the database they are checked all the same.
-- p_locked is append_all's: it holds the campaign's numbering already.
-- +goose StatementBegin
CREATE FUNCTION tidemark.append(p_campaign_id text, p_events jsonb, p_expect bigint DEFAULT NULL, p_checked boolean DEFAULT false, p_locked boolean DEFAULT false)
    RETURNS TABLE (seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    one CONSTANT jsonb := p_events -> 0;
    trusted CONSTANT boolean := p_checked AND NOT tidemark.limits_set(); -- checked by the client, and nothing says otherwise
    limits integer[];
    n integer;
    plain boolean; -- all are without tags and ids, and of one type
    tagged boolean; -- any of them
    named boolean; -- the same: has an id
    taken boolean; -- of locks; an assignment is cheaper than a query
    at timestamptz;
    ms bigint;
    random_tail text;
    head bigint;
    waiting bigint;
    known integer;
    different bigint;
BEGIN
    -- What most calls have: one event without tags and without an id. Each expression and query is made ready anew in each transaction, which is most of what one event costs: here are as few as
    -- can be.
    IF trusted AND jsonb_array_length(p_events) = 1 AND NOT one ?| '{tags,id}' THEN
        at := CASE WHEN p_locked OR tidemark.lock_untagged(p_campaign_id, one ->> 'type') THEN tidemark.hold_floor() END;
        INSERT INTO tidemark.journal AS j (campaign_id, seq, position, event_id, event_type, event_version, intent, aggregate_type, aggregate_id, actor,
            payload, metadata, payload_bytes, occurred_at, recorded_at)
        VALUES (p_campaign_id, coalesce((SELECT CASE WHEN p_expect <> h.seq THEN tidemark.refuse_version(p_campaign_id, p_expect, h.seq) ELSE h.seq + 1 END
                FROM tidemark.journal h WHERE h.campaign_id = p_campaign_id ORDER BY h.seq DESC LIMIT 1), CASE WHEN p_expect <> 0 THEN tidemark.refuse_version(p_campaign_id, p_expect, 0) ELSE 1 END),
            nextval('tidemark.journal_position'), tidemark.made_id((date_part('epoch', at) * 1000)::bigint, 1, right(gen_random_uuid()::text, 17)), one ->> 'type', coalesce((one ->> 'version')::integer, 1),
            coalesce(one ->> 'intent', 'projection_and_replay')::tidemark.intent, one ->> 'aggregate_type', one ->> 'aggregate_id', one ->> 'actor',
            coalesce(one -> 'payload', '{}'), one -> 'metadata', pg_column_size(one), coalesce((one ->> 'occurred_at')::timestamptz, at), at)
        RETURNING j.seq, j.position, j.event_id, false INTO seq, position, event_id, duplicate;
        INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
        SELECT g.name, p_campaign_id, seq, at, 1 FROM tidemark.consumer_groups g WHERE g.name > '' AND g.state <> 'inline';
        IF pg_sequence_last_value('tidemark.waiting') > date_part('epoch', at) * 1000 THEN
            PERFORM tidemark.wake();
        END IF;
        RETURN NEXT;
        RETURN;
    END IF;

    IF NOT trusted THEN
        limits := tidemark.append_limits();
        IF p_campaign_id IS NULL OR p_campaign_id = '' OR octet_length(p_campaign_id) > limits[1] THEN
            RAISE EXCEPTION 'campaign id %: it must have 1 to % bytes (tidemark.max_campaign_id_bytes)', coalesce(quote_literal(left(p_campaign_id, 64)), 'NULL'), limits[1]
                USING ERRCODE = 'TM004';
        ELSIF coalesce(jsonb_typeof(p_events), 'null') <> 'array' THEN
            RAISE EXCEPTION 'append to campaign %: the events are a JSON %, they must be an array of objects', left(p_campaign_id, 64), coalesce(jsonb_typeof(p_events), 'null')
                USING ERRCODE = 'TM004';
        END IF;
        IF jsonb_array_length(p_events) > limits[2] THEN
            RAISE EXCEPTION 'append to campaign %: % events in one call, the limit is % (tidemark.max_events_per_call)', left(p_campaign_id, 64), jsonb_array_length(p_events), limits[2]
                USING ERRCODE = 'TM004', HINT = 'append them in several calls';
        END IF;
    END IF;
    n := jsonb_array_length(p_events);
    IF n = 0 THEN
        RETURN;
    END IF;
    plain := NOT jsonb_path_exists(p_events, '$[*].tags') AND NOT jsonb_path_exists(p_events, '$[*].id') AND jsonb_path_query_array(p_events, '$[*].type') <@ jsonb_build_array(one -> 'type');
    IF plain THEN
        at := CASE WHEN p_locked OR tidemark.lock_untagged(p_campaign_id, one ->> 'type') THEN tidemark.hold_floor() END;
    ELSE
        tagged := jsonb_path_exists(p_events, '$[*].tags[*]');
        named := jsonb_path_exists(p_events, '$[*].id');

        -- What conditions wait for; then the campaign.
        IF NOT p_locked THEN
            IF tagged THEN
                taken := tidemark.lock_keys(tidemark.touched_types(p_events), tidemark.touched_tags(p_events));
            ELSE
                PERFORM pg_advisory_xact_lock_shared(t.key) FROM (SELECT DISTINCT tidemark.type_key(e.event ->> 'type') AS key FROM jsonb_array_elements(p_events) AS e (event) ORDER BY 1) AS t;
            END IF;
            taken := tidemark.lock_campaign(p_campaign_id);
        END IF;

        -- An event that is there already is answered with its seq: repeating an append whose outcome is unknown is safe,
        -- whatever it expected at first. Each id is probed for, in a form that leaves the planner no
        -- other index, also while it believes the table to be empty: a join, or the primary key, would read the whole campaign.
        IF named THEN
            SELECT count(*), min(e.ord) FILTER (WHERE j.event_type IS DISTINCT FROM e.type OR j.payload IS DISTINCT FROM coalesce(e.payload, '{}')
                OR j.event_version IS DISTINCT FROM coalesce(e.version, 1) OR j.intent::text IS DISTINCT FROM coalesce(e.intent, 'projection_and_replay')
                OR j.metadata IS DISTINCT FROM e.metadata OR j.tags IS DISTINCT FROM nullif(e.tags, '{}') OR j.actor IS DISTINCT FROM e.actor
                OR j.aggregate_type IS DISTINCT FROM e.aggregate_type OR j.aggregate_id IS DISTINCT FROM e.aggregate_id
                OR j.occurred_at IS DISTINCT FROM coalesce(e.occurred_at, j.occurred_at))
            INTO known, different
            FROM ROWS FROM (jsonb_to_recordset(p_events) AS (id uuid, type text, version integer, intent text, aggregate_type text, aggregate_id text,
                actor text, tags text[], payload jsonb, metadata jsonb, occurred_at timestamptz)) WITH ORDINALITY
                AS e (id, type, version, intent, aggregate_type, aggregate_id, actor, tags, payload, metadata, occurred_at, ord)
            CROSS JOIN LATERAL (
                SELECT * FROM tidemark.journal j WHERE j.campaign_id = p_campaign_id AND j.event_id BETWEEN e.id AND e.id ORDER BY j.event_id LIMIT 1
            ) j;
            IF different IS NOT NULL THEN
                RAISE EXCEPTION 'event % of campaign %: its id % was appended before with another content', different - 1, left(p_campaign_id, 64), p_events -> (different::integer - 1) ->> 'id'
                    USING ERRCODE = 'TM002', HINT = 'give each new event an id of its own';
            ELSIF known = n THEN
                RETURN QUERY SELECT j.seq, j.position, j.event_id, true
                    FROM jsonb_array_elements(p_events) WITH ORDINALITY AS e (event, ord)
                    CROSS JOIN LATERAL (
                        SELECT * FROM tidemark.journal j
                        WHERE j.campaign_id = p_campaign_id AND j.event_id BETWEEN (e.event ->> 'id')::uuid AND (e.event ->> 'id')::uuid ORDER BY j.event_id LIMIT 1
                    ) j
                    ORDER BY e.ord;
                RETURN;
            ELSIF known > 0 THEN
                RAISE EXCEPTION 'append to campaign %: % of its % events are in the journal already, the others are new', left(p_campaign_id, 64), known, n
                    USING ERRCODE = 'TM003', HINT = 'repeat an append with exactly the events it had at first';
            END IF;
            IF (SELECT count(e.event ->> 'id') <> count(DISTINCT (e.event ->> 'id')::uuid) FROM jsonb_array_elements(p_events) AS e (event)) THEN
                RAISE EXCEPTION 'append to campaign %: two of its events have the same id', left(p_campaign_id, 64)
                    USING ERRCODE = 'TM002', HINT = 'give each new event an id of its own';
            END IF;
        END IF;

        at := tidemark.hold_floor();
    END IF;
    ms := date_part('epoch', at) * 1000;
    random_tail := right(gen_random_uuid()::text, 17);
    SELECT coalesce((SELECT j.seq FROM tidemark.journal j WHERE j.campaign_id = p_campaign_id ORDER BY j.seq DESC LIMIT 1), 0) INTO head;
    IF p_expect <> head THEN
        PERFORM tidemark.refuse_version(p_campaign_id, p_expect, head);
    END IF;

    -- The same twice: what is not needed is not even prepared for.
    IF trusted THEN
        RETURN QUERY
            INSERT INTO tidemark.journal AS j (campaign_id, seq, position, event_id, event_type, event_version, intent, aggregate_type, aggregate_id, actor,
                tags, payload, metadata, payload_bytes, occurred_at, recorded_at)
            SELECT p_campaign_id, head + e.ord, nextval('tidemark.journal_position'), coalesce(e.id, tidemark.made_id(ms, e.ord, random_tail)), e.type, coalesce(e.version, 1),
                coalesce(e.intent, 'projection_and_replay')::tidemark.intent, e.aggregate_type, e.aggregate_id, e.actor, nullif(e.tags, '{}'),
                coalesce(e.payload, '{}'),
                e.metadata, coalesce(pg_column_size(e.payload), 0) + coalesce(pg_column_size(e.metadata), 0), coalesce(e.occurred_at, at), at
            FROM ROWS FROM (jsonb_to_recordset(p_events) AS (id uuid, type text, version integer, intent text, aggregate_type text, aggregate_id text,
                actor text, tags text[], payload jsonb, metadata jsonb, occurred_at timestamptz)) WITH ORDINALITY
                AS e (id, type, version, intent, aggregate_type, aggregate_id, actor, tags, payload, metadata, occurred_at, ord)
            RETURNING j.seq, j.position, j.event_id, false;
    ELSE
        RETURN QUERY
            INSERT INTO tidemark.journal AS j (campaign_id, seq, position, event_id, event_type, event_version, intent, aggregate_type, aggregate_id, actor,
                tags, payload, metadata, payload_bytes, occurred_at, recorded_at)
            SELECT p_campaign_id, head + e.ord, nextval('tidemark.journal_position'), coalesce(e.id, tidemark.made_id(ms, e.ord, random_tail)), e.type, coalesce(e.version, 1),
                CASE WHEN e.intent IN ('replay_only', 'audit_only') THEN e.intent ELSE 'projection_and_replay' END::tidemark.intent, e.aggregate_type, e.aggregate_id, e.actor, nullif(e.tags, '{}'),
                CASE
                    WHEN octet_length(e.type) BETWEEN 1 AND 256
                        AND coalesce(e.version, 1) >= 1
                        AND coalesce(e.intent IN ('projection_and_replay', 'replay_only', 'audit_only'), true)
                        AND coalesce(jsonb_typeof(e.payload) = 'object', true)
                        AND coalesce(octet_length(e.payload::text) <= limits[3], true)
                        AND coalesce(pg_column_size(e.payload) <= 8 * limits[7] OR NOT jsonb_path_exists(e.payload, format('strict $.**{%s}', limits[7] + 1)::jsonpath, silent => true), true)
                        AND coalesce(jsonb_typeof(e.metadata) = 'object', true)
                        AND coalesce(octet_length(e.metadata::text) <= limits[4], true)
                        AND coalesce(pg_column_size(e.metadata) <= 8 * limits[7] OR NOT jsonb_path_exists(e.metadata, format('strict $.**{%s}', limits[7] + 1)::jsonpath, silent => true), true)
                        AND (e.tags IS NULL OR cardinality(e.tags) <= limits[5] AND coalesce(array_ndims(e.tags) = 1, true)
                            AND NOT EXISTS (SELECT FROM unnest(e.tags) AS t (tag) WHERE tag IS NULL OR octet_length(tag) NOT BETWEEN 1 AND limits[6]))
                        AND coalesce(octet_length(e.aggregate_type) <= 256, true)
                        AND coalesce(octet_length(e.aggregate_id) <= 256, true)
                        AND coalesce(octet_length(e.actor) <= 256, true)
                        AND coalesce(e.occurred_at >= '0001-01-01 00:00Z' AND e.occurred_at < '10000-01-01 00:00Z', true)
                    THEN coalesce(e.payload, '{}')
                    ELSE tidemark.refuse_event(p_campaign_id, e.ord, e.type, e.version, e.intent, coalesce(e.payload, '{}'), e.metadata, e.tags, e.occurred_at,
                        repeat('x', 769 * (greatest(octet_length(e.aggregate_type), octet_length(e.aggregate_id), octet_length(e.actor)) > 256)::integer))
                END,
                e.metadata, coalesce(pg_column_size(e.payload), 0) + coalesce(pg_column_size(e.metadata), 0), coalesce(e.occurred_at, at), at
            FROM ROWS FROM (jsonb_to_recordset(p_events) AS (id uuid, type text, version integer, intent text, aggregate_type text, aggregate_id text,
                actor text, tags text[], payload jsonb, metadata jsonb, occurred_at timestamptz)) WITH ORDINALITY
                AS e (id, type, version, intent, aggregate_type, aggregate_id, actor, tags, payload, metadata, occurred_at, ord)
            RETURNING j.seq, j.position, j.event_id, false;
    END IF;
    INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
    SELECT g.name, p_campaign_id, head + n, at, n FROM tidemark.consumer_groups g WHERE g.name > '' AND g.state <> 'inline';

    IF tagged THEN
        INSERT INTO tidemark.event_tags (tag, event_type, position)
        SELECT DISTINCT t.tag, j.event_type, j.position
        FROM (
            SELECT * FROM tidemark.journal j WHERE j.campaign_id = p_campaign_id AND j.seq > head AND j.seq <= head + n ORDER BY j.seq LIMIT n
        ) j CROSS JOIN LATERAL unnest(j.tags) AS t (tag);
    END IF;

    -- Somebody waits: wake him, and say which wait it was, so that it is ended once.
    waiting := pg_sequence_last_value('tidemark.waiting');
    IF waiting > ms THEN
        PERFORM pg_notify('tidemark_work', waiting::text);
    END IF;
END
$$;
-- +goose StatementEnd

-- wake is for whoever gives workers something to do other than by an append: if somebody waits, he is woken when the transaction commits.
-- +goose StatementBegin
CREATE FUNCTION tidemark.wake() RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    waiting CONSTANT bigint := coalesce(pg_sequence_last_value('tidemark.waiting'), 0);
BEGIN
    IF waiting > extract(epoch FROM clock_timestamp()) * 1000 THEN
        PERFORM pg_notify('tidemark_work', waiting::text);
    END IF;
END
$$;
-- +goose StatementEnd

-- append_all is append for several campaigns in one call. p_batches is an array of {"campaign_id", "events", "expect"}. p_locked is append_if's: it holds all locks already.
-- +goose StatementBegin
CREATE FUNCTION tidemark.append_all(p_batches jsonb, p_checked boolean DEFAULT false, p_locked boolean DEFAULT false)
    RETURNS TABLE (campaign_id text, seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    limits CONSTANT integer[] := tidemark.append_limits();
    max_id CONSTANT integer := limits[1];
    max_events CONSTANT integer := limits[2];
    bad text;
    n bigint;
    all_events jsonb;
    batch record;
BEGIN
    IF coalesce(jsonb_typeof(p_batches), 'null') <> 'array' THEN
        RAISE EXCEPTION 'append: the batches are a JSON %, they must be an array of objects', coalesce(jsonb_typeof(p_batches), 'null')
            USING ERRCODE = 'TM004';
    END IF;
    SELECT min(left(coalesce(b ->> 'campaign_id', ''), 64)) FILTER (WHERE coalesce(octet_length(b ->> 'campaign_id'), 0) NOT BETWEEN 1 AND max_id
            OR coalesce(jsonb_typeof(b -> 'events'), 'null') <> 'array'),
        sum(CASE WHEN jsonb_typeof(b -> 'events') = 'array' THEN jsonb_array_length(b -> 'events') END)
    INTO bad, n FROM jsonb_array_elements(p_batches) AS b;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION 'campaign id %: it must have 1 to % bytes (tidemark.max_campaign_id_bytes), and its events must be an array', quote_literal(bad), max_id
            USING ERRCODE = 'TM004';
    ELSIF n > max_events THEN
        RAISE EXCEPTION 'append: % events in one call, the limit is % (tidemark.max_events_per_call)', n, max_events
            USING ERRCODE = 'TM004', HINT = 'append them in several calls';
    END IF;
    IF NOT p_locked THEN
        all_events := jsonb_path_query_array(p_batches, '$[*].events[*]');
        PERFORM tidemark.lock_keys(tidemark.touched_types(all_events), tidemark.touched_tags(all_events));
        PERFORM tidemark.lock_campaigns(array(SELECT DISTINCT b ->> 'campaign_id' FROM jsonb_array_elements(p_batches) AS b));
    END IF;
    FOR batch IN SELECT b ->> 'campaign_id' AS id, b -> 'events' AS events, (b ->> 'expect')::bigint AS expect FROM jsonb_array_elements(p_batches) AS b LOOP
        RETURN QUERY SELECT batch.id, a.* FROM tidemark.append(batch.id, batch.events, batch.expect, p_checked, true) AS a;
    END LOOP;
END
$$;
-- +goose StatementEnd

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP FUNCTION tidemark.append_all;
DROP FUNCTION tidemark.wake;
DROP FUNCTION tidemark.append;
DROP FUNCTION tidemark.made_id;
DROP FUNCTION tidemark.hold_floor;
DROP FUNCTION tidemark.lock_untagged;
DROP FUNCTION tidemark.limits_set;
DROP FUNCTION tidemark.refuse_version;
DROP FUNCTION tidemark.lock_keys;
DROP FUNCTION tidemark.touched_tags;
DROP FUNCTION tidemark.touched_types;
DROP FUNCTION tidemark.tag_key;
DROP FUNCTION tidemark.type_key;
DROP FUNCTION tidemark.lock_campaigns;
DROP FUNCTION tidemark.lock_campaign;
DROP FUNCTION tidemark.refuse_event;
DROP FUNCTION tidemark.append_limits;
DROP SEQUENCE tidemark.waiting;
DROP TABLE tidemark.workers;
DROP TABLE tidemark.leases;
DROP TABLE tidemark.outbox;
DROP TABLE tidemark.consumer_groups;
