-- +goose Up
-- A projection that is 'joining' is in step nowhere yet: every campaign that moves is filed in deferred for it. Once the campaigns
-- that do not move are filed too it is 'active', and in step wherever deferred says nothing of it.
CREATE TABLE tidemark.projections (
    name           text COLLATE "C" PRIMARY KEY,
    consumer_group text COLLATE "C" NOT NULL,
    version        integer          NOT NULL,
    schema_name    text             NOT NULL,
    table_names    text[]           NOT NULL,
    state          text             NOT NULL CHECK (state IN ('joining', 'active')),
    registered_at  timestamptz      NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE tidemark.deferred (
    campaign_id     text COLLATE "C" NOT NULL,
    projection      text COLLATE "C" NOT NULL,
    consumer_group  text COLLATE "C" NOT NULL,
    next_seq        bigint           NOT NULL,
    status          text COLLATE "C" NOT NULL CHECK (status IN ('failed', 'dead', 'rebuilding')),
    attempt_count   integer          NOT NULL,
    next_attempt_at timestamptz      NOT NULL,
    error_class     text,
    error_message   text,
    error_stack     text,
    first_failed_at timestamptz,
    last_failed_at  timestamptz,
    PRIMARY KEY (campaign_id, projection)
);

CREATE INDEX deferred_due_idx ON tidemark.deferred (consumer_group, projection, next_attempt_at) WHERE status IN ('failed', 'rebuilding');

-- claim_deferred leases campaigns that have a pair whose retry is due, for projections the caller knows: of each projection the oldest p_limit are looked at, so
-- that none keeps the others waiting. next_due is when the earliest of those not held is due.
-- +goose StatementBegin
CREATE FUNCTION tidemark.claim_deferred(p_group text, p_owner text, p_projections text[], p_limit integer, p_ttl interval,
        OUT campaign_ids text[], OUT generations bigint[], OUT checkpoints bigint[], OUT next_due timestamptz)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    due_ids text[];
    idle_ids text[];
    new_ids text[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    campaign_ids := '{}'; generations := '{}'; checkpoints := '{}';

    SELECT min(d.next_attempt_at), coalesce(array_agg(d.campaign_id) FILTER (WHERE d.next_attempt_at <= at), '{}') INTO next_due, due_ids
    FROM (
        SELECT d.campaign_id, d.next_attempt_at
        FROM unnest(p_projections) AS known (projection)
        CROSS JOIN LATERAL (SELECT FROM tidemark.projections p WHERE p.name = known.projection AND p.state = 'active' OFFSET 0) p
        CROSS JOIN LATERAL (
            SELECT d.campaign_id, d.next_attempt_at FROM tidemark.deferred d
            WHERE d.consumer_group = p_group AND d.projection = known.projection AND d.status IN ('failed', 'rebuilding')
                AND NOT EXISTS (SELECT FROM tidemark.leases l WHERE l.consumer_group = p_group AND l.campaign_id = d.campaign_id AND l.expires_at > at OFFSET 0)
            ORDER BY d.consumer_group, d.projection, d.next_attempt_at
            LIMIT p_limit
        ) d
        ORDER BY d.next_attempt_at
        LIMIT p_limit
    ) d;
    IF cardinality(due_ids) > 0 THEN
        SELECT coalesce(array_agg(c.campaign_id) FILTER (WHERE l.known), '{}'), coalesce(array_agg(c.campaign_id) FILTER (WHERE l.known IS NULL), '{}')
        INTO idle_ids, new_ids
        FROM (SELECT DISTINCT unnest(due_ids) AS campaign_id) c
        LEFT JOIN LATERAL (
            SELECT true AS known FROM tidemark.leases l WHERE l.consumer_group = p_group AND l.campaign_id = c.campaign_id OFFSET 0
        ) l ON true;
        SELECT coalesce(array_agg(a.campaign_id), '{}'), coalesce(array_agg(a.generation), '{}'), coalesce(array_agg(a.checkpoint), '{}')
        INTO campaign_ids, generations, checkpoints
        FROM tidemark.acquire_leases(p_group, p_owner, idle_ids, new_ids, p_ttl) AS a;
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION tidemark.claim_deferred;
DROP TABLE tidemark.deferred;
DROP TABLE tidemark.projections;
