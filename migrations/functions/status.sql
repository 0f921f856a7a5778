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
