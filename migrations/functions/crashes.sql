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
