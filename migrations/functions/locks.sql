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
