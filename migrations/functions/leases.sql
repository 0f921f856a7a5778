-- Leases of campaigns, and the checkpoints that they guard.
--
-- leases, outbox and failed swing between empty and millions of rows while one plan stays cached.
-- So these functions, and those of claims.sql, crashes.sql, outbox.sql and projections.sql, run
-- under settings and in a form that leave the planner one choice. Each probes the primary key for
-- every named campaign (a lateral subquery that cannot be pulled up), then locks the row, which
-- cannot move meanwhile, and updates it by its place (ctid). While an old snapshot keeps vacuum
-- from dead rows (docs/adr/0020), a lease has hundreds of dead versions, each with an entry in the
-- index. Equal keys stand in the order of their places and the table grows at its end, so a probe
-- backwards usually meets the live version first. Postgres drops an ORDER BY after a campaign_id
-- that is given by =, so these probes say BETWEEN. A woken worker usually has one campaign.
-- Separate statements for one campaign do the same as those for many and start sooner.

-- acquire_leases leases the campaigns that are free: p_idle have a lease row, p_new had none a
-- moment ago. Each array names a campaign once. Rows are locked in the order of campaign_id. A row
-- that another transaction is writing is skipped, never waited for.
-- The lease of a fallen owner is taken over as if it had expired. So is a stranded lease, but it
-- does not count as a crash. A lease that expired without being released was left by a process that
-- died, or that lost the database for longer than its TTL: crashes are detected only here.
-- crashed_ids lists the leased campaigns with a row in tidemark.crashes: those just recorded, and
-- suspects whose checkpoint has not moved.
CREATE OR REPLACE FUNCTION tidemark.acquire_leases(p_group text, p_owner text, p_idle text[], p_new text[],
        p_ttl interval, OUT campaign_ids text[], OUT generations bigint[], OUT checkpoints bigint[],
        OUT crashed_ids text[])
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    fallen CONSTANT text[] := tidemark.fallen(p_group);
    left_ids text[];
    left_checkpoints bigint[];
    left_by text[];
    left_at timestamptz[];
    new_ids text[];
BEGIN
    campaign_ids := '{}'; generations := '{}'; checkpoints := '{}'; crashed_ids := '{}';
    IF cardinality(p_idle) > 0 THEN
        WITH free AS MATERIALIZED (
            SELECT f.place, f.left_by, f.left_at
            FROM (SELECT * FROM unnest(p_idle) AS c (campaign_id) ORDER BY 1) w CROSS JOIN LATERAL (
                SELECT l.ctid AS place, CASE WHEN l.expires_at > '-infinity' AND l.expires_at <= at
                    OR l.owner = ANY (fallen) AND l.expires_at > at THEN l.owner END AS left_by,
                    l.expires_at AS left_at FROM tidemark.leases l
                WHERE l.consumer_group = p_group AND l.campaign_id BETWEEN w.campaign_id AND w.campaign_id
                    AND (l.expires_at <= at OR l.owner = ANY (fallen) OR l.expires_at > at + p_ttl + interval '1 s'
                        AND l.owner <> 'paused' AND tidemark.stranded(l.owner, l.expires_at))
                ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
                FOR UPDATE SKIP LOCKED
            ) f
        ), taken AS (
            UPDATE tidemark.leases l SET owner = p_owner, generation = l.generation + 1, expires_at = at + p_ttl
            FROM free f WHERE l.ctid = f.place
            RETURNING l.campaign_id, l.generation, l.checkpoint, f.left_by, f.left_at
        )
        SELECT coalesce(array_agg(t.campaign_id), '{}'), coalesce(array_agg(t.generation), '{}'),
            coalesce(array_agg(t.checkpoint), '{}'),
            array_agg(t.campaign_id) FILTER (WHERE t.left_by IS NOT NULL),
                array_agg(t.checkpoint) FILTER (WHERE t.left_by IS NOT NULL),
            array_agg(t.left_by) FILTER (WHERE t.left_by IS NOT NULL),
                array_agg(t.left_at) FILTER (WHERE t.left_by IS NOT NULL)
        INTO campaign_ids, generations, checkpoints, left_ids, left_checkpoints, left_by, left_at
        FROM taken t;
        IF left_ids IS NOT NULL THEN
            crashed_ids := tidemark.note_crashes(p_group, left_ids, left_checkpoints, left_by, left_at, p_ttl);
        END IF;
        -- Almost always an index without entries.
        IF EXISTS (SELECT FROM tidemark.crashes c WHERE c.consumer_group = p_group AND cardinality(c.owners) > 0) THEN
            SELECT coalesce(array_agg(DISTINCT k.campaign_id), '{}') INTO crashed_ids
            FROM (
                SELECT unnest(crashed_ids) AS campaign_id
                UNION ALL
                SELECT u.campaign_id
                FROM unnest(campaign_ids, checkpoints) AS u (campaign_id, checkpoint)
                CROSS JOIN LATERAL (
                    SELECT c.checkpoint FROM tidemark.crashes c
                    WHERE c.consumer_group = p_group AND c.campaign_id = u.campaign_id
                        AND cardinality(c.owners) > 0 OFFSET 0
                ) c
                WHERE c.checkpoint = u.checkpoint
            ) k;
        END IF;
    END IF;
    IF cardinality(p_new) > 0 THEN
        WITH made AS (
            INSERT INTO tidemark.leases AS l (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
            SELECT p_group, c.campaign_id, p_owner, 1, at + p_ttl, 0
            FROM (SELECT * FROM unnest(p_new) AS c (campaign_id) ORDER BY 1) c
            ON CONFLICT DO NOTHING
            RETURNING l.campaign_id
        )
        SELECT coalesce(array_agg(m.campaign_id), '{}') INTO new_ids FROM made m;
        campaign_ids := campaign_ids || new_ids;
        generations := generations || array_fill(1::bigint, ARRAY[cardinality(new_ids)]);
        checkpoints := checkpoints || array_fill(0::bigint, ARRAY[cardinality(new_ids)]);
    END IF;
END
$$;

-- advance is the fence. It moves the checkpoints of leases that the caller still holds, releases
-- those with p_release and renews the others. If the caller no longer holds a lease, or its
-- checkpoint has moved, it fails the transaction with TM010. p_events and p_hashes are the number
-- of events applied and the hash of their ids, stored with the checkpoint. A NULL hash makes the
-- campaign's hash unknown for good.
CREATE OR REPLACE FUNCTION tidemark.advance(p_group text, p_owner text, p_campaign_ids text[], p_generations bigint[],
    p_from bigint[], p_to bigint[], p_release boolean[], p_ttl interval, p_events bigint[], p_hashes bigint[])
    RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    done text[];
    places tid[];
    checkpoints bigint[];
    releases boolean[];
    events bigint[];
    hashes bigint[];
BEGIN
    -- No lock is taken first: other sessions almost never write these rows.
    IF cardinality(p_campaign_ids) = 1 THEN
        UPDATE tidemark.leases l
        SET checkpoint = p_to[1], applied = l.applied + p_events[1], applied_hash = l.applied_hash # p_hashes[1],
            expires_at = CASE WHEN p_release[1] THEN '-infinity' ELSE clock_timestamp() + p_ttl END
        WHERE l.ctid = (
                SELECT h.ctid FROM tidemark.leases h
                WHERE h.consumer_group = p_group AND h.campaign_id BETWEEN p_campaign_ids[1] AND p_campaign_ids[1]
                ORDER BY h.consumer_group DESC, h.campaign_id DESC LIMIT 1
            ) AND l.generation = p_generations[1] AND l.owner = p_owner AND l.checkpoint = p_from[1];
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    WITH moved AS (
        UPDATE tidemark.leases l
        SET checkpoint = m.new, applied = l.applied + m.events, applied_hash = l.applied_hash # m.hash,
            expires_at = CASE WHEN m.release THEN '-infinity' ELSE clock_timestamp() + p_ttl END
        FROM (
            SELECT u.*, h.place
            FROM (
                SELECT * FROM unnest(p_campaign_ids, p_generations, p_from, p_to, p_release, p_events,
                    p_hashes) AS u (campaign_id, generation, old, new, release, events, hash)
                ORDER BY 1
            ) u
            CROSS JOIN LATERAL (
                SELECT l.ctid AS place FROM tidemark.leases l
                WHERE l.consumer_group = p_group AND l.campaign_id BETWEEN u.campaign_id AND u.campaign_id
                ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
            ) h OFFSET 0
        ) m
        WHERE l.ctid = m.place AND l.generation = m.generation AND l.owner = p_owner AND l.checkpoint = m.old
        RETURNING l.campaign_id
    )
    SELECT coalesce(array_agg(campaign_id), '{}') INTO done FROM moved;
    IF cardinality(done) < cardinality(p_campaign_ids) THEN
        -- A renewal may have moved rows to another place meanwhile. Lock the remaining rows, then
        -- write them in a statement whose snapshot has them.
        SELECT array_agg(h.place), array_agg(u.new), array_agg(u.release), array_agg(u.events), array_agg(u.hash)
        INTO places, checkpoints, releases, events, hashes
        FROM (
            SELECT * FROM unnest(p_campaign_ids, p_generations, p_from, p_to, p_release, p_events,
                p_hashes) AS u (campaign_id, generation, old, new, release, events, hash)
            WHERE u.campaign_id <> ALL (done) ORDER BY 1
        ) u
        CROSS JOIN LATERAL (
            SELECT l.ctid AS place FROM tidemark.leases l
            WHERE l.consumer_group = p_group AND l.campaign_id = u.campaign_id AND l.generation = u.generation
                AND l.owner = p_owner AND l.checkpoint = u.old
            FOR UPDATE
        ) h;
        IF cardinality(done) + coalesce(cardinality(places), 0) < cardinality(p_campaign_ids) THEN
            RAISE EXCEPTION '% of % leases are no longer held',
                cardinality(p_campaign_ids) - cardinality(done) - coalesce(cardinality(places), 0),
                cardinality(p_campaign_ids) USING ERRCODE = 'TM010', HINT = 'another worker has taken over: drop the work, claim again';
        END IF;
        UPDATE tidemark.leases l
        SET checkpoint = m.checkpoint, applied = l.applied + m.events, applied_hash = l.applied_hash # m.hash,
            expires_at = CASE WHEN m.release THEN '-infinity' ELSE clock_timestamp() + p_ttl END
        FROM unnest(places, checkpoints, releases, events, hashes) AS m (place, checkpoint, release, events, hash)
        WHERE l.ctid = m.place;
    END IF;
END
$$;

-- renew extends the leases that the caller still holds, and returns their campaigns. A row that is
-- being written is skipped and returned as held: its writer is either the owner's own transaction
-- or a claim that will own the lease. The fence tells these apart.
CREATE OR REPLACE FUNCTION tidemark.renew(p_group text, p_owner text, p_campaign_ids text[], p_generations bigint[],
    p_ttl interval)
    RETURNS TABLE (campaign_id text)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    RETURN QUERY
    WITH mine AS MATERIALIZED (
        SELECT * FROM unnest(p_campaign_ids, p_generations) AS u (campaign_id, generation) ORDER BY 1
    ), held AS MATERIALIZED (
        SELECT m.campaign_id
        FROM mine m CROSS JOIN LATERAL (
            SELECT FROM tidemark.leases l
            WHERE l.consumer_group = p_group AND l.campaign_id BETWEEN m.campaign_id AND m.campaign_id
                AND l.generation = m.generation AND l.owner = p_owner AND l.expires_at > '-infinity'
            ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
        ) l
    ), quiet AS MATERIALIZED (
        SELECT q.place
        FROM mine m CROSS JOIN LATERAL (
            SELECT l.ctid AS place FROM tidemark.leases l
            WHERE l.consumer_group = p_group AND l.campaign_id BETWEEN m.campaign_id AND m.campaign_id
                AND l.generation = m.generation AND l.owner = p_owner AND l.expires_at > '-infinity'
            ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
            FOR UPDATE SKIP LOCKED
        ) q
    ), renewed AS (
        UPDATE tidemark.leases l SET expires_at = clock_timestamp() + p_ttl
        FROM quiet q WHERE l.ctid = q.place
    )
    SELECT h.campaign_id FROM held h;
END
$$;

-- release gives back leases without moving their checkpoints. Leases that another transaction is
-- writing come last, with a wait of at most 300 ms. If that transaction rolls back, the lease
-- expires by itself.
CREATE OR REPLACE FUNCTION tidemark.release(p_group text, p_owner text, p_campaign_ids text[], p_generations bigint[])
    RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    places tid[];
    released text[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT array_agg(h.place), coalesce(array_agg(u.campaign_id), '{}') INTO places, released -- as in advance
    FROM (SELECT * FROM unnest(p_campaign_ids, p_generations) AS u (campaign_id, generation) ORDER BY 1) u
    CROSS JOIN LATERAL (
        SELECT l.ctid AS place FROM tidemark.leases l
        WHERE l.consumer_group = p_group AND l.campaign_id = u.campaign_id AND l.generation = u.generation
            AND l.owner = p_owner
        FOR UPDATE SKIP LOCKED
    ) h;
    UPDATE tidemark.leases l SET expires_at = '-infinity' WHERE l.ctid = ANY (places);
    IF cardinality(released) < cardinality(p_campaign_ids) THEN
        BEGIN
            PERFORM set_config('lock_timeout', '300ms', true);
            SELECT array_agg(h.place) INTO places
            FROM (SELECT * FROM unnest(p_campaign_ids, p_generations) AS u (campaign_id, generation)
                WHERE u.campaign_id <> ALL (released) ORDER BY 1) u
            CROSS JOIN LATERAL (
                SELECT l.ctid AS place FROM tidemark.leases l
                WHERE l.consumer_group = p_group AND l.campaign_id = u.campaign_id AND l.generation = u.generation
                    AND l.owner = p_owner
                FOR UPDATE
            ) h;
            UPDATE tidemark.leases l SET expires_at = '-infinity' WHERE l.ctid = ANY (places);
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            NULL;
        END;
    END IF;
END
$$;

-- fence takes campaigns away from their holders, for a transaction that changes data the holders
-- relied on. It raises each generation and releases the lease, so work in progress fails in advance
-- and runs again on the new data. Call it before writing or locking rows of failed: workers lock
-- in that order, and by campaign_id. A campaign without a lease row gets one, because a claim that
-- is just inserting one would not notice otherwise. A paused campaign stays paused.
CREATE OR REPLACE FUNCTION tidemark.fence(p_group text, p_campaign_ids text[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- ON CONFLICT finds the existing row by the primary key, whatever the planner's statistics say.
    INSERT INTO tidemark.leases AS l (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
    SELECT p_group, c.campaign_id, '', 1, '-infinity', 0
    FROM (SELECT DISTINCT u.campaign_id FROM unnest(p_campaign_ids) AS u (campaign_id) ORDER BY 1) c
    ON CONFLICT (consumer_group, campaign_id) DO UPDATE SET generation = l.generation + 1,
        expires_at = CASE WHEN l.owner = 'paused' THEN l.expires_at ELSE '-infinity' END;
END
$$;

-- take_over leases campaigns for a transaction that applies their events itself, even if other
-- owners hold them: their work in progress fails at its fence. It skips campaigns that an operator
-- has paused, and all campaigns of a paused group. Without p_wait it also skips campaigns that are
-- held, or whose row another transaction is writing. Rows are locked in the order of campaign_id.
-- Name each campaign once.
CREATE OR REPLACE FUNCTION tidemark.take_over(p_group text, p_owner text, p_campaign_ids text[], p_wait boolean,
        p_ttl interval)
    RETURNS TABLE (campaign_id text, generation bigint, checkpoint bigint)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    ids text[] := p_campaign_ids;
BEGIN
    IF EXISTS (SELECT FROM tidemark.pauses p WHERE p.scope = 'group' AND p.consumer_group = p_group AND p.name = ''
        AND p.expires_at > at) THEN
        RETURN;
    END IF;
    IF NOT p_wait THEN
        SELECT array(
            SELECT c.campaign_id FROM unnest(p_campaign_ids) AS c (campaign_id)
            WHERE NOT EXISTS (SELECT FROM tidemark.leases l WHERE l.consumer_group = p_group
                AND l.campaign_id = c.campaign_id OFFSET 0)
        ) || array(
            SELECT c.campaign_id
            FROM (SELECT * FROM unnest(p_campaign_ids) AS c (campaign_id) ORDER BY 1) c
            CROSS JOIN LATERAL (
                SELECT FROM tidemark.leases l WHERE l.consumer_group = p_group AND l.campaign_id = c.campaign_id
                    AND (l.expires_at <= at OR l.expires_at > at + p_ttl + interval '1 s' AND l.owner <> 'paused'
                        AND tidemark.stranded(l.owner, l.expires_at))
                FOR UPDATE SKIP LOCKED
            ) free
        ) INTO ids;
    END IF;
    RETURN QUERY
    INSERT INTO tidemark.leases AS l (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
    SELECT p_group, c.campaign_id, p_owner, 1, at + p_ttl, 0
    FROM (SELECT * FROM unnest(ids) AS c (campaign_id) ORDER BY 1) c
    ON CONFLICT (consumer_group, campaign_id) DO UPDATE
        SET owner = p_owner, generation = l.generation + 1, expires_at = clock_timestamp() + p_ttl
        WHERE l.owner <> 'paused' OR l.expires_at <= clock_timestamp()
    RETURNING l.campaign_id, l.generation, l.checkpoint;
END
$$;
