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
