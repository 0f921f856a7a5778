-- +goose Up
-- The tables below swing between empty and millions of rows within one cached plan. So their functions run under settings and in a form that leave the
-- planner one choice: a probe of the primary key for each campaign named (a lateral subquery that cannot be pulled up), then the row by its place (ctid),
-- which nobody can move meanwhile: it is locked.

-- acquire_leases leases those of the campaigns that nobody holds: p_idle have a lease row, p_new had none a moment ago. Each array names a campaign once. Rows
-- are locked in the order of campaign_id; a row that somebody is writing is skipped, never waited for. Callers read "held" from the lease alone: owner and
-- expiry are set here and nowhere else.
-- +goose StatementBegin
CREATE FUNCTION tidemark.acquire_leases(p_group text, p_owner text, p_idle text[], p_new text[], p_ttl interval)
    RETURNS TABLE (campaign_id text, generation bigint, checkpoint bigint)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
BEGIN
    IF cardinality(p_idle) > 0 THEN
        RETURN QUERY
        WITH free AS MATERIALIZED (
            SELECT f.place
            FROM (SELECT * FROM unnest(p_idle) AS c (campaign_id) ORDER BY 1) w CROSS JOIN LATERAL (
                SELECT l.ctid AS place FROM tidemark.leases l
                WHERE l.consumer_group = p_group AND l.campaign_id = w.campaign_id AND l.expires_at <= at
                FOR UPDATE SKIP LOCKED
            ) f
        )
        UPDATE tidemark.leases l SET owner = p_owner, generation = l.generation + 1, expires_at = at + p_ttl
        FROM free f WHERE l.ctid = f.place
        RETURNING l.campaign_id, l.generation, l.checkpoint;
    END IF;
    IF cardinality(p_new) > 0 THEN
        RETURN QUERY
        INSERT INTO tidemark.leases AS l (consumer_group, campaign_id, owner, generation, expires_at, checkpoint)
        SELECT p_group, c.campaign_id, p_owner, 1, at + p_ttl, 0
        FROM (SELECT * FROM unnest(p_new) AS c (campaign_id) ORDER BY 1) c
        ON CONFLICT DO NOTHING
        RETURNING l.campaign_id, l.generation, l.checkpoint;
    END IF;
END
$$;
-- +goose StatementEnd

-- claim finds campaigns with work and without a live lease, from just after p_cursor around the whole outbox, and leases up to p_limit of them.
-- It looks at the next few rows, then steps from campaign to campaign along the outbox's primary key, and stops at the limit, so its cost follows what it returns plus
-- what others hold (at most p_steps), not the backlog. A claim that a crash of the server forgets is harmless, so it does not wait for the disk.
-- next_expiry is the earliest expiry among the leases it passed; next_cursor is where the next claim goes on, '' once it has been all around.
-- +goose StatementBegin
CREATE FUNCTION tidemark.claim(p_group text, p_owner text, p_cursor text, p_limit integer, p_ttl interval, p_steps integer DEFAULT 4096,
        OUT campaign_ids text[], OUT generations bigint[], OUT checkpoints bigint[], OUT next_cursor text, OUT next_expiry timestamptz)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
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
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR pass IN 1..2 LOOP
        -- The next few rows: where campaigns have one or two each, this finds them all.
        SELECT coalesce(array_agg(c.campaign_id) FILTER (WHERE l.expires_at <= at), '{}'), coalesce(array_agg(c.campaign_id) FILTER (WHERE l.expires_at IS NULL), '{}'),
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
            SELECT l.expires_at FROM tidemark.leases l
            WHERE l.consumer_group = p_group AND l.campaign_id = c.campaign_id OFFSET 0
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
                    SELECT l.expires_at FROM tidemark.leases l
                    WHERE l.consumer_group = p_group AND l.campaign_id = n.campaign_id OFFSET 0
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
        next_cursor := ''; -- all around: from the beginning it is one walk instead of two
    END IF;

    campaign_ids := '{}'; generations := '{}'; checkpoints := '{}';
    IF missing < p_limit THEN
        SELECT coalesce(array_agg(a.campaign_id), '{}'), coalesce(array_agg(a.generation), '{}'), coalesce(array_agg(a.checkpoint), '{}')
        INTO campaign_ids, generations, checkpoints
        FROM tidemark.acquire_leases(p_group, p_owner, idle_ids, new_ids, p_ttl) AS a;
    END IF;
END
$$;
-- +goose StatementEnd

-- advance is the fence. It moves the checkpoints of leases that are still the caller's, releases those with p_release, and prolongs the
-- others; if any lease is no longer the caller's, or its checkpoint has moved, it fails the transaction.
-- +goose StatementBegin
CREATE FUNCTION tidemark.advance(p_group text, p_owner text, p_campaign_ids text[], p_generations bigint[], p_from bigint[], p_to bigint[],
        p_release boolean[], p_ttl interval) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
DECLARE
    done text[];
    places tid[];
    checkpoints bigint[];
    releases boolean[];
BEGIN
    -- No lock is taken first: hardly ever does anybody else write the rows.
    WITH moved AS (
        UPDATE tidemark.leases l
        SET checkpoint = m.new, expires_at = CASE WHEN m.release THEN '-infinity' ELSE clock_timestamp() + p_ttl END
        FROM (
            SELECT u.*, h.place
            FROM (SELECT * FROM unnest(p_campaign_ids, p_generations, p_from, p_to, p_release) AS u (campaign_id, generation, old, new, release) ORDER BY 1) u
            CROSS JOIN LATERAL (
                SELECT l.ctid AS place FROM tidemark.leases l WHERE l.consumer_group = p_group AND l.campaign_id = u.campaign_id OFFSET 0
            ) h
            OFFSET 0
        ) m
        WHERE l.ctid = m.place AND l.generation = m.generation AND l.owner = p_owner AND l.checkpoint = m.old
        RETURNING l.campaign_id
    )
    SELECT coalesce(array_agg(campaign_id), '{}') INTO done FROM moved;
    IF cardinality(done) < cardinality(p_campaign_ids) THEN
        -- A renewal may have moved rows to another place meanwhile. What is left is locked, then written in a statement whose snapshot has them.
        SELECT array_agg(h.place), array_agg(u.new), array_agg(u.release) INTO places, checkpoints, releases
        FROM (
            SELECT * FROM unnest(p_campaign_ids, p_generations, p_from, p_to, p_release) AS u (campaign_id, generation, old, new, release)
            WHERE u.campaign_id <> ALL (done) ORDER BY 1
        ) u
        CROSS JOIN LATERAL (
            SELECT l.ctid AS place FROM tidemark.leases l
            WHERE l.consumer_group = p_group AND l.campaign_id = u.campaign_id AND l.generation = u.generation AND l.owner = p_owner AND l.checkpoint = u.old
            FOR UPDATE
        ) h;
        IF cardinality(done) + coalesce(cardinality(places), 0) < cardinality(p_campaign_ids) THEN
            RAISE EXCEPTION '% of % leases are no longer held', cardinality(p_campaign_ids) - cardinality(done) - coalesce(cardinality(places), 0), cardinality(p_campaign_ids)
                USING ERRCODE = 'TM010', HINT = 'another worker has taken over: drop the work, claim again';
        END IF;
        UPDATE tidemark.leases l
        SET checkpoint = m.checkpoint, expires_at = CASE WHEN m.release THEN '-infinity' ELSE clock_timestamp() + p_ttl END
        FROM unnest(places, checkpoints, releases) AS m (place, checkpoint, release)
        WHERE l.ctid = m.place;
    END IF;
END
$$;
-- +goose StatementEnd

-- renew prolongs leases that are still the caller's and answers which they are. A row that is being written is left alone and answered as held:
-- only its owner's own transaction, or a claim that will then own it, writes it, and the fence tells them apart.
-- +goose StatementBegin
CREATE FUNCTION tidemark.renew(p_group text, p_owner text, p_campaign_ids text[], p_generations bigint[], p_ttl interval)
    RETURNS TABLE (campaign_id text)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off
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
            WHERE l.consumer_group = p_group AND l.campaign_id = m.campaign_id AND l.generation = m.generation AND l.owner = p_owner
                AND l.expires_at > '-infinity' OFFSET 0
        ) l
    ), quiet AS MATERIALIZED (
        SELECT q.place
        FROM mine m CROSS JOIN LATERAL (
            SELECT l.ctid AS place FROM tidemark.leases l
            WHERE l.consumer_group = p_group AND l.campaign_id = m.campaign_id AND l.generation = m.generation AND l.owner = p_owner
                AND l.expires_at > '-infinity'
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

-- release gives back leases without moving their checkpoints.
-- +goose StatementBegin
CREATE FUNCTION tidemark.release(p_group text, p_owner text, p_campaign_ids text[], p_generations bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
DECLARE
    places tid[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT array_agg(h.place) INTO places -- as in advance
    FROM (SELECT * FROM unnest(p_campaign_ids, p_generations) AS u (campaign_id, generation) ORDER BY 1) u
    CROSS JOIN LATERAL (
        SELECT l.ctid AS place FROM tidemark.leases l
        WHERE l.consumer_group = p_group AND l.campaign_id = u.campaign_id AND l.generation = u.generation AND l.owner = p_owner
        FOR UPDATE
    ) h;
    UPDATE tidemark.leases l SET expires_at = '-infinity' WHERE l.ctid = ANY (places);
END
$$;
-- +goose StatementEnd

-- complete deletes the work items of campaigns up to a seq each.
-- +goose StatementBegin
CREATE FUNCTION tidemark.complete(p_group text, p_campaign_ids text[], p_to bigint[]) RETURNS bigint
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
DECLARE
    n bigint;
BEGIN
    -- Rows up to a checkpoint are deleted under its campaign's lease and by nobody else, so their places stay theirs without a lock.
    DELETE FROM tidemark.outbox o
    WHERE o.ctid = ANY (ARRAY(
        SELECT i.place
        FROM (SELECT * FROM unnest(p_campaign_ids, p_to) AS u (campaign_id, seq) ORDER BY 1) u
        CROSS JOIN LATERAL (
            SELECT o.ctid AS place FROM tidemark.outbox o
            WHERE o.consumer_group = p_group AND o.campaign_id = u.campaign_id AND o.seq <= u.seq OFFSET 0
        ) i
    ));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION tidemark.complete;
DROP FUNCTION tidemark.release;
DROP FUNCTION tidemark.renew;
DROP FUNCTION tidemark.advance;
DROP FUNCTION tidemark.claim;
DROP FUNCTION tidemark.acquire_leases;
