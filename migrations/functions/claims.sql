-- Workers find campaigns that have work, and lease them. For the form of the statements see leases.sql.

-- claim_around finds campaigns that have work and no live lease, from just after p_cursor around
-- the whole outbox, and leases up to p_limit of them. It reads the next few rows, then steps from
-- campaign to campaign along the outbox's primary key and stops at the limit. So its cost follows
-- the campaigns that it returns plus those that others hold (at most p_steps), not the backlog.
-- next_expiry is the earliest expiry among the leases it passed. next_cursor is where the next
-- claim continues, '' once it has been all around. A paused group has no work. It is long: each further
-- function that it called would cost 8 to 17 µs.
CREATE OR REPLACE FUNCTION tidemark.claim_around(p_group text, p_owner text, p_cursor text, p_limit integer,
    p_ttl interval, p_steps integer, OUT campaign_ids text[], OUT generations bigint[], OUT checkpoints bigint[],
    OUT next_cursor text, OUT next_expiry timestamptz, OUT crashed_ids text[])
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
            SELECT tidemark.lease_ends(l.owner, l.expires_at, fallen, far) AS expires_at
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
                    SELECT tidemark.lease_ends(l.owner, l.expires_at, fallen, far) AS expires_at
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

-- claim is the function that workers call. It is claim_around with two shortcuts, because a worker
-- often finds nothing or is woken by one append. An empty outbox needs no walk. If the outbox has
-- one campaign, its lease was released in good order and the group has no suspects, claim takes
-- that lease directly. It evaluates as few expressions as possible: plpgsql prepares each one anew
-- in each transaction. It does not wait for the disk, because losing a claim in a server crash is
-- harmless.
CREATE OR REPLACE FUNCTION tidemark.claim(p_group text, p_owner text, p_cursor text, p_limit integer, p_ttl interval,
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

-- claim_recent is a claim that looks only at the campaigns of the newest events and at p_known. So
-- it does not step over dead rows, which the journal does not have (docs/adr/0020). It reads up to
-- 1024 events after the position p_since (0: the newest). The next claim goes on at next_since: the
-- first gap, whose append may commit later, but at most 256 positions back. known_ids are campaigns
-- that have work but were not claimed: give them to the next claim. It also looks at the next p_turn
-- campaigns of the journal after p_after, so that nothing is missed; next_after is '' after the last
-- one. next_cursor is '' if nothing else can be claimed now. dead is about how many rows of the
-- outbox vacuum has yet to remove.
CREATE OR REPLACE FUNCTION tidemark.claim_recent(p_group text, p_owner text, p_since bigint, p_known text[],
    p_after text, p_turn integer, p_limit integer, p_ttl interval, OUT campaign_ids text[], OUT generations bigint[],
    OUT checkpoints bigint[], OUT next_cursor text, OUT next_expiry timestamptz, OUT crashed_ids text[],
    OUT next_since bigint, OUT known_ids text[], OUT next_after text, OUT dead bigint)
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
        ) u GROUP BY u.campaign_id
    ), waiting AS (
        SELECT n.campaign_id, n.position, l.expires_at
        FROM named n
        LEFT JOIN LATERAL (
            SELECT l.checkpoint, tidemark.lease_ends(l.owner, l.expires_at, fallen, far) AS expires_at
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
    next_cursor := CASE WHEN more OR cardinality(idle_ids) + cardinality(new_ids) > p_limit THEN 'more' ELSE '' END;
    SELECT a.campaign_ids, a.generations, a.checkpoints, a.crashed_ids
        INTO campaign_ids, generations, checkpoints, crashed_ids
    FROM tidemark.acquire_leases(p_group, p_owner, idle_ids[:p_limit],
        new_ids[:greatest(p_limit - cardinality(idle_ids), 0)], p_ttl) AS a;
    known_ids := (array(SELECT f.campaign_id FROM unnest(idle_ids || new_ids) WITH ORDINALITY AS f (campaign_id, n)
        WHERE f.campaign_id <> ALL (campaign_ids) ORDER BY f.n) || known_ids)[:1024];
END
$$;

-- claimed_campaigns and claimed_checkpoints return the result of this session's last claim, if it
-- was kept in the settings. Statements pipelined behind a claim use them to find its campaigns
-- before the client has read the claim's result.
CREATE OR REPLACE FUNCTION tidemark.claimed_campaigns() RETURNS text[]
    LANGUAGE sql STABLE
    RETURN nullif(current_setting('tidemark.claimed_campaigns', true), '')::text[];

-- claimed_checkpoints returns the checkpoints of claimed_campaigns.
CREATE OR REPLACE FUNCTION tidemark.claimed_checkpoints() RETURNS bigint[]
    LANGUAGE sql STABLE
    RETURN nullif(current_setting('tidemark.claimed_checkpoints', true), '')::bigint[];
