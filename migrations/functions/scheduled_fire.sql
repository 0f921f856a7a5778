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
