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
