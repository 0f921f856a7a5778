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
