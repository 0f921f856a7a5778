-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- The tables below swing between empty and millions of rows while one plan stays cached. So these
-- functions run under settings and in a form that leave the planner one choice. Each probes the
-- primary key for every named campaign (a lateral subquery that cannot be pulled up), then locks
-- the row, which cannot move meanwhile, and updates it by its place (ctid).
-- While an old snapshot keeps vacuum from dead rows (docs/adr/0020), a lease has hundreds of dead
-- versions, each with an entry in the index. Equal keys stand in the order of their places and the
-- table grows at its end, so a probe backwards usually meets the live version first. Postgres drops
-- an ORDER BY after a campaign_id that is given by =, so these probes say BETWEEN.
-- A woken worker usually has one campaign. Separate statements for one campaign do the same as
-- those for many and start sooner.

-- stranded reports whether a lease outlives its owner's TTL, or its owner is dead. Callers ask only
-- about leases that run longer than their own would, so almost never. A stranded lease means that
-- the server's clock has gone back. The old clock set the expiry, so waiting for it could take
-- hours.
-- +goose StatementBegin
CREATE FUNCTION tidemark.stranded(p_owner text, p_expires_at timestamptz) RETURNS boolean
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
-- +goose StatementEnd

-- fallen returns the owners of a group that have probably died at a suspect campaign, or hang.
-- These owners had marked that they worked on a campaign under which a process had died, and were
-- last seen longer ago than a sixth of their lease TTL, at least 3 s. Their leases are not waited
-- for. An owner that is alive after all fails at the fence, and removes itself from the list of the
-- dead with its next beat.
-- +goose StatementBegin
CREATE FUNCTION tidemark.fallen(p_group text) RETURNS text[]
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
-- +goose StatementEnd

-- acquire_leases leases the campaigns that are free: p_idle have a lease row, p_new had none a
-- moment ago. Each array names a campaign once. Rows are locked in the order of campaign_id. A row
-- that another transaction is writing is skipped, never waited for.
-- The lease of a fallen owner is taken over as if it had expired. So is a stranded lease, but it
-- does not count as a crash. A lease that expired without being released was left by a process that
-- died, or that lost the database for longer than its TTL: crashes are detected only here.
-- crashed_ids lists the leased campaigns with a row in tidemark.crashes: those just recorded, and
-- suspects whose checkpoint has not moved.
-- +goose StatementBegin
CREATE FUNCTION tidemark.acquire_leases(p_group text, p_owner text, p_idle text[], p_new text[], p_ttl interval,
        OUT campaign_ids text[], OUT generations bigint[], OUT checkpoints bigint[], OUT crashed_ids text[])
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
-- +goose StatementEnd

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
-- +goose StatementBegin
CREATE FUNCTION tidemark.note_crashes(p_group text, p_campaign_ids text[], p_checkpoints bigint[], p_owners text[],
    p_expired timestamptz[], p_ttl interval) RETURNS text[]
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
-- +goose StatementEnd

-- claim_around finds campaigns that have work and no live lease, from just after p_cursor around
-- the whole outbox, and leases up to p_limit of them. It reads the next few rows, then steps from
-- campaign to campaign along the outbox's primary key and stops at the limit. So its cost follows
-- the campaigns that it returns plus those that others hold (at most p_steps), not the backlog.
-- next_expiry is the earliest expiry among the leases it passed. next_cursor is where the next
-- claim continues, '' once it has been all around. A paused group has no work.
-- +goose StatementBegin
CREATE FUNCTION tidemark.claim_around(p_group text, p_owner text, p_cursor text, p_limit integer, p_ttl interval,
    p_steps integer,
        OUT campaign_ids text[], OUT generations bigint[], OUT checkpoints bigint[], OUT next_cursor text,
            OUT next_expiry timestamptz, OUT crashed_ids text[])
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    far CONSTANT timestamptz := at + p_ttl + interval '1 s';
    fallen CONSTANT text[] := tidemark.fallen(p_group);
    idle_ids text[] := '{}';
    new_ids text[] := '{}';
    pass_idle text[];
    pass_new text[];
    missing integer := p_limit;
    pass_expiry timestamptz;
    steps_left integer := p_steps;
    pass_rows bigint;
    pass_steps integer;
    more boolean;
    start text COLLATE "C" := p_cursor;
    stop text COLLATE "C" := NULL;
    reached text;
BEGIN
    campaign_ids := '{}'; generations := '{}'; checkpoints := '{}'; crashed_ids := '{}';
    SELECT p.expires_at INTO next_expiry FROM tidemark.pauses p WHERE p.scope = 'group' AND p.consumer_group = p_group
        AND p.name = '' AND p.expires_at > at;
    IF FOUND THEN
        next_cursor := p_cursor;
        next_expiry := nullif(next_expiry, 'infinity');
        RETURN;
    END IF;
    FOR pass IN 1..2 LOOP
        -- The next few rows. Where campaigns have one or two rows each, this finds them all.
        SELECT coalesce(array_agg(c.campaign_id) FILTER (WHERE l.expires_at <= at), '{}'),
            coalesce(array_agg(c.campaign_id) FILTER (WHERE l.expires_at IS NULL), '{}'),
            min(l.expires_at) FILTER (WHERE l.expires_at > at), sum(c.rows), max(c.campaign_id)
        INTO pass_idle, pass_new, pass_expiry, pass_rows, reached
        FROM (
            SELECT o.campaign_id, count(*) AS rows
            FROM (
                SELECT o.campaign_id FROM tidemark.outbox o
                WHERE o.consumer_group = p_group AND o.campaign_id > start
                ORDER BY o.consumer_group, o.campaign_id LIMIT missing
            ) o
            WHERE stop IS NULL OR o.campaign_id <= stop
            GROUP BY o.campaign_id
        ) c
        LEFT JOIN LATERAL (
            SELECT CASE WHEN l.owner = ANY (fallen) OR l.expires_at > far AND l.owner <> 'paused'
                AND tidemark.stranded(l.owner, l.expires_at) THEN '-infinity' ELSE l.expires_at END AS expires_at
            FROM tidemark.leases l
            WHERE l.consumer_group = p_group AND l.campaign_id BETWEEN c.campaign_id AND c.campaign_id
            ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
        ) l ON true;
        more := pass_rows = missing;
        idle_ids := idle_ids || pass_idle;
        new_ids := new_ids || pass_new;
        missing := p_limit - cardinality(idle_ids) - cardinality(new_ids);
        next_expiry := least(next_expiry, pass_expiry);
        next_cursor := coalesce(reached, next_cursor, start);

        -- From there on, from campaign to campaign.
        IF more AND missing > 0 THEN
            start := reached;
            WITH RECURSIVE walk AS (
                SELECT start AS campaign_id, false AS free, NULL::timestamptz AS expires_at, 0 AS found, 0 AS steps
                UNION ALL
                SELECT n.campaign_id, f.free, l.expires_at, w.found + f.free::integer, w.steps + 1
                FROM walk w
                CROSS JOIN LATERAL (
                    SELECT o.campaign_id FROM tidemark.outbox o
                    WHERE o.consumer_group = p_group AND o.campaign_id > w.campaign_id
                    ORDER BY o.consumer_group, o.campaign_id LIMIT 1
                ) n
                LEFT JOIN LATERAL (
                    SELECT CASE WHEN l.owner = ANY (fallen) OR l.expires_at > far AND l.owner <> 'paused'
                        AND tidemark.stranded(l.owner, l.expires_at) THEN '-infinity'
                        ELSE l.expires_at END AS expires_at
                    FROM tidemark.leases l
                    WHERE l.consumer_group = p_group AND l.campaign_id BETWEEN n.campaign_id AND n.campaign_id
                    ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
                ) l ON true
                CROSS JOIN LATERAL (SELECT coalesce(l.expires_at <= at, true) AS free OFFSET 0) f
                WHERE w.found < missing AND w.steps < steps_left AND (stop IS NULL OR n.campaign_id <= stop)
            )
            SELECT coalesce(array_agg(w.campaign_id) FILTER (WHERE w.expires_at <= at), '{}'),
                coalesce(array_agg(w.campaign_id) FILTER (WHERE w.expires_at IS NULL AND w.free), '{}'),
                min(w.expires_at) FILTER (WHERE w.expires_at > at), max(w.steps), max(w.campaign_id)
            INTO pass_idle, pass_new, pass_expiry, pass_steps, reached
            FROM walk w;
            idle_ids := idle_ids || pass_idle;
            new_ids := new_ids || pass_new;
            missing := p_limit - cardinality(idle_ids) - cardinality(new_ids);
            next_expiry := least(next_expiry, pass_expiry);
            next_cursor := reached;
            steps_left := steps_left - pass_steps;
        END IF;
        EXIT WHEN missing <= 0 OR steps_left <= 0 OR p_cursor = '';
        stop := p_cursor;
        start := '';
    END LOOP;
    IF missing > 0 AND steps_left > 0 THEN
        next_cursor := ''; -- all around: starting at the beginning takes one walk instead of two
    END IF;
    next_expiry := nullif(next_expiry, 'infinity'); -- of paused campaigns

    IF missing < p_limit THEN
        SELECT a.campaign_ids, a.generations, a.checkpoints, a.crashed_ids
            INTO campaign_ids, generations, checkpoints, crashed_ids
        FROM tidemark.acquire_leases(p_group, p_owner, idle_ids, new_ids, p_ttl) AS a;
    END IF;
END
$$;
-- +goose StatementEnd

-- claim is the function that workers call. It is claim_around with two shortcuts, because a worker
-- often finds nothing or is woken by one append. An empty outbox needs no walk. If the outbox has
-- one campaign, its lease was released in good order and the group has no suspects, claim takes
-- that lease directly. It evaluates as few expressions as possible: plpgsql prepares each one anew
-- in each transaction. It does not wait for the disk, because losing a claim in a server crash is
-- harmless.
-- +goose StatementBegin
CREATE FUNCTION tidemark.claim(p_group text, p_owner text, p_cursor text, p_limit integer, p_ttl interval,
    p_steps integer DEFAULT 4096,
        OUT campaign_ids text[], OUT generations bigint[], OUT checkpoints bigint[], OUT next_cursor text,
            OUT next_expiry timestamptz, OUT crashed_ids text[])
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    only_id text;
    alone boolean;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    IF p_cursor = '' AND p_limit > 1 THEN
        SELECT o.campaign_id, NOT EXISTS (
                SELECT FROM tidemark.outbox n WHERE n.consumer_group = p_group AND n.campaign_id > o.campaign_id
                    ORDER BY n.consumer_group, n.campaign_id LIMIT 1
            ) AND NOT EXISTS (
                SELECT FROM tidemark.pauses p WHERE p.scope = 'group' AND p.consumer_group = p_group AND p.name = ''
                    AND p.expires_at > clock_timestamp()
            ) AND NOT EXISTS (
                SELECT FROM tidemark.crashes c WHERE c.consumer_group = p_group AND cardinality(c.owners) > 0
            )
        INTO only_id, alone
        FROM (SELECT o.campaign_id FROM tidemark.outbox o WHERE o.consumer_group = p_group
            ORDER BY o.consumer_group, o.campaign_id LIMIT 1) o;
        IF NOT FOUND THEN
            campaign_ids := '{}'; generations := '{}'; checkpoints := '{}'; crashed_ids := '{}'; next_cursor := '';
            RETURN;
        ELSIF alone THEN
            UPDATE tidemark.leases l SET owner = p_owner, generation = l.generation + 1,
                expires_at = clock_timestamp() + p_ttl
            FROM (
                SELECT l.ctid AS place FROM tidemark.leases l
                WHERE l.consumer_group = p_group AND l.campaign_id BETWEEN only_id AND only_id
                    AND l.expires_at = '-infinity'
                ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
                FOR UPDATE SKIP LOCKED
            ) f
            WHERE l.ctid = f.place
            RETURNING ARRAY[l.campaign_id], ARRAY[l.generation], ARRAY[l.checkpoint], '', '{}'
                INTO campaign_ids, generations, checkpoints, next_cursor, crashed_ids;
            IF FOUND THEN
                RETURN;
            END IF;
        END IF;
    END IF;
    SELECT a.campaign_ids, a.generations, a.checkpoints, a.next_cursor, a.next_expiry, a.crashed_ids
        INTO campaign_ids, generations, checkpoints, next_cursor, next_expiry, crashed_ids
    FROM tidemark.claim_around(p_group, p_owner, p_cursor, p_limit, p_ttl, p_steps) AS a;
END
$$;
-- +goose StatementEnd

-- claim_recent is a claim that looks only at the campaigns of the newest events and at p_known. So
-- it does not step over dead rows, which the journal does not have (docs/adr/0020). It reads up to
-- 1024 events after the position p_since (0: the newest). The next claim goes on at next_since: the
-- first gap, whose append may commit later, but at most 256 positions back. known_ids are campaigns
-- that have work but were not claimed: give them to the next claim. It also looks at the next p_turn
-- campaigns of the journal after p_after, so that nothing is missed; next_after is '' after the last
-- one. next_cursor is '' if nothing else can be claimed now. dead is about how many rows of the
-- outbox vacuum has yet to remove.
-- +goose StatementBegin
CREATE FUNCTION tidemark.claim_recent(p_group text, p_owner text, p_since bigint, p_known text[], p_after text,
    p_turn integer, p_limit integer, p_ttl interval,
        OUT campaign_ids text[], OUT generations bigint[], OUT checkpoints bigint[], OUT next_cursor text,
            OUT next_expiry timestamptz, OUT crashed_ids text[], OUT next_since bigint, OUT known_ids text[],
                OUT next_after text, OUT dead bigint)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    far CONSTANT timestamptz := at + p_ttl + interval '1 s';
    fallen CONSTANT text[] := tidemark.fallen(p_group);
    newest CONSTANT bigint := pg_sequence_last_value('tidemark.journal_position');
    idle_ids text[];
    new_ids text[];
    more boolean;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    next_after := p_after;
    dead := pg_stat_get_dead_tuples('tidemark.outbox'::regclass);
    IF EXISTS (SELECT FROM tidemark.pauses p WHERE p.scope = 'group' AND p.consumer_group = p_group AND p.name = ''
        AND p.expires_at > at) THEN
        campaign_ids := '{}'; generations := '{}'; checkpoints := '{}'; crashed_ids := '{}';
        next_cursor := ''; next_since := p_since; known_ids := p_known;
        RETURN;
    END IF;
    WITH RECURSIVE others AS (
        SELECT p_after COLLATE "C" AS campaign_id, 0 AS n
        UNION ALL
        SELECT f.campaign_id, o.n + 1
        FROM others o CROSS JOIN LATERAL (
            SELECT j.campaign_id FROM tidemark.journal j WHERE j.campaign_id > o.campaign_id
            ORDER BY j.campaign_id LIMIT 1
        ) f
        WHERE o.n < p_turn
    ), recent AS MATERIALIZED (
        SELECT r.campaign_id, r.position, r.position - row_number() OVER (ORDER BY r.position) AS before
        FROM (
            SELECT j.campaign_id, j.position FROM tidemark.journal j
            WHERE j.position > CASE p_since WHEN 0 THEN newest - 1024 ELSE p_since END ORDER BY j.position LIMIT 1024
        ) r
    ), named AS (
        SELECT u.campaign_id, min(u.position) AS position
        FROM (
            SELECT r.campaign_id, r.position FROM recent r UNION ALL SELECT * FROM unnest(p_known) WITH ORDINALITY
            UNION ALL SELECT o.campaign_id, 9223372036854775807 FROM others o WHERE o.n > 0
        ) u
        GROUP BY u.campaign_id
    ), waiting AS (
        SELECT n.campaign_id, n.position, l.expires_at
        FROM named n
        LEFT JOIN LATERAL (
            SELECT l.checkpoint, CASE WHEN l.owner = ANY (fallen) OR l.expires_at > far AND l.owner <> 'paused'
                AND tidemark.stranded(l.owner, l.expires_at) THEN '-infinity' ELSE l.expires_at END AS expires_at
            FROM tidemark.leases l
            WHERE l.consumer_group = p_group AND l.campaign_id BETWEEN n.campaign_id AND n.campaign_id
            ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
        ) l ON true
        CROSS JOIN LATERAL (
            SELECT FROM tidemark.outbox o WHERE o.consumer_group = p_group AND o.campaign_id = n.campaign_id
                AND o.seq > coalesce(l.checkpoint, 0) LIMIT 1
        ) o
    )
    SELECT coalesce(array_agg(w.campaign_id ORDER BY w.position) FILTER (WHERE w.expires_at <= at), '{}'),
        coalesce(array_agg(w.campaign_id ORDER BY w.position) FILTER (WHERE w.expires_at IS NULL), '{}'),
        coalesce(array_agg(w.campaign_id) FILTER (WHERE w.expires_at > at AND w.expires_at < 'infinity'), '{}'),
        min(w.expires_at) FILTER (WHERE w.expires_at > at AND w.expires_at < 'infinity'),
        (SELECT greatest(p_since, coalesce(max(r.position), newest) - 256,
            max(r.position) FILTER (WHERE r.before = p_since)) FROM recent r), (SELECT count(*) = 1024 FROM recent),
        coalesce((SELECT o.campaign_id FROM others o WHERE o.n = p_turn), '')
    INTO idle_ids, new_ids, known_ids, next_expiry, next_since, more, next_after
    FROM waiting w;
    more := more OR cardinality(idle_ids) + cardinality(new_ids) > p_limit;
    next_cursor := CASE WHEN more THEN 'more' ELSE '' END;
    SELECT a.campaign_ids, a.generations, a.checkpoints, a.crashed_ids
        INTO campaign_ids, generations, checkpoints, crashed_ids
    FROM tidemark.acquire_leases(p_group, p_owner, idle_ids[:p_limit],
        new_ids[:greatest(p_limit - cardinality(idle_ids), 0)], p_ttl) AS a;
    known_ids := (array(SELECT f.campaign_id FROM unnest(idle_ids || new_ids) WITH ORDINALITY AS f (campaign_id, n)
        WHERE f.campaign_id <> ALL (campaign_ids) ORDER BY f.n) || known_ids)[:1024];
END
$$;
-- +goose StatementEnd

-- claimed_campaigns and claimed_checkpoints return the result of this session's last claim, if it
-- was kept in the settings. Statements pipelined behind a claim use them to find its campaigns
-- before the client has read the claim's result.
-- +goose StatementBegin
CREATE FUNCTION tidemark.claimed_campaigns() RETURNS text[]
    LANGUAGE sql STABLE
    RETURN nullif(current_setting('tidemark.claimed_campaigns', true), '')::text[];
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION tidemark.claimed_checkpoints() RETURNS bigint[]
    LANGUAGE sql STABLE
    RETURN nullif(current_setting('tidemark.claimed_checkpoints', true), '')::bigint[];
-- +goose StatementEnd

-- advance is the fence. It moves the checkpoints of leases that the caller still holds, releases
-- those with p_release and renews the others. If the caller no longer holds a lease, or its
-- checkpoint has moved, it fails the transaction with TM010. p_events and p_hashes are the number
-- of events applied and the hash of their ids, stored with the checkpoint. A NULL hash makes the
-- campaign's hash unknown for good.
-- +goose StatementBegin
CREATE FUNCTION tidemark.advance(p_group text, p_owner text, p_campaign_ids text[], p_generations bigint[],
    p_from bigint[], p_to bigint[],
        p_release boolean[], p_ttl interval, p_events bigint[], p_hashes bigint[]) RETURNS void
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
            ) h
            OFFSET 0
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
                cardinality(p_campaign_ids)
                USING ERRCODE = 'TM010', HINT = 'another worker has taken over: drop the work, claim again';
        END IF;
        UPDATE tidemark.leases l
        SET checkpoint = m.checkpoint, applied = l.applied + m.events, applied_hash = l.applied_hash # m.hash,
            expires_at = CASE WHEN m.release THEN '-infinity' ELSE clock_timestamp() + p_ttl END
        FROM unnest(places, checkpoints, releases, events, hashes) AS m (place, checkpoint, release, events, hash)
        WHERE l.ctid = m.place;
    END IF;
END
$$;
-- +goose StatementEnd

-- renew extends the leases that the caller still holds, and returns their campaigns. A row that is
-- being written is skipped and returned as held: its writer is either the owner's own transaction
-- or a claim that will own the lease. The fence tells these apart.
-- +goose StatementBegin
CREATE FUNCTION tidemark.renew(p_group text, p_owner text, p_campaign_ids text[], p_generations bigint[],
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
-- +goose StatementEnd

-- release gives back leases without moving their checkpoints. Leases that another transaction is
-- writing come last, with a wait of at most 300 ms. If that transaction rolls back, the lease
-- expires by itself.
-- +goose StatementBegin
CREATE FUNCTION tidemark.release(p_group text, p_owner text, p_campaign_ids text[], p_generations bigint[]) RETURNS void
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
-- +goose StatementEnd

-- complete deletes the work items of each campaign from its old checkpoint up to its new one, so that
-- it does not step over items that are already deleted. If the checkpoint stays, it deletes all items
-- up to there: work that was already done may have been filed again.
-- +goose StatementBegin
CREATE FUNCTION tidemark.complete(p_group text, p_campaign_ids text[], p_from bigint[], p_to bigint[]) RETURNS bigint
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
-- +goose StatementEnd

-- fence takes campaigns away from their holders, for a transaction that changes data the holders
-- relied on. It raises each generation and releases the lease, so work in progress fails in advance
-- and runs again on the new data. Call it before writing or locking rows of deferred: workers lock
-- in that order, and by campaign_id. A campaign without a lease row gets one, because a claim that
-- is just inserting one would not notice otherwise. A paused campaign stays paused.
-- +goose StatementBegin
CREATE FUNCTION tidemark.fence(p_group text, p_campaign_ids text[]) RETURNS void
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
-- +goose StatementEnd

-- gaps examines up to p_limit campaigns below p_below ('': from the greatest on). It returns those
-- whose journal has events to project beyond the group's checkpoint although the outbox has no row
-- for them. (Failed campaigns of a projection say nothing about its group, and a group in state
-- 'across' has no campaigns.) It steps down the
-- journal's primary key: one probe finds the next campaign and its last event, one more the
-- checkpoint. It is one statement, so a concurrent append or apply is seen as a whole or not at
-- all. next is where to continue, '' at the end.
-- +goose StatementBegin
CREATE FUNCTION tidemark.gaps(p_group text, p_below text, p_limit integer,
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
-- +goose StatementEnd

-- take_over leases campaigns for a transaction that applies their events itself, even if other
-- owners hold them: their work in progress fails at its fence. It skips campaigns that an operator
-- has paused, and all campaigns of a paused group. Without p_wait it also skips campaigns that are
-- held, or whose row another transaction is writing. Rows are locked in the order of campaign_id.
-- Name each campaign once.
-- +goose StatementBegin
CREATE FUNCTION tidemark.take_over(p_group text, p_owner text, p_campaign_ids text[], p_wait boolean, p_ttl interval)
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
-- +goose StatementEnd

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP FUNCTION tidemark.take_over;
DROP FUNCTION tidemark.gaps;
DROP FUNCTION tidemark.fence;
DROP FUNCTION tidemark.complete;
DROP FUNCTION tidemark.release;
DROP FUNCTION tidemark.renew;
DROP FUNCTION tidemark.advance;
DROP FUNCTION tidemark.claimed_checkpoints;
DROP FUNCTION tidemark.claimed_campaigns;
DROP FUNCTION tidemark.claim_recent;
DROP FUNCTION tidemark.claim;
DROP FUNCTION tidemark.claim_around;
DROP FUNCTION tidemark.acquire_leases;
DROP FUNCTION tidemark.note_crashes;
DROP FUNCTION tidemark.stranded;
DROP FUNCTION tidemark.fallen;
