-- The registry of projections, and their failed campaigns.

-- sign_projection writes who names the tables. Others drop what the row names, some with more rights.
CREATE OR REPLACE FUNCTION tidemark.sign_projection() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    NEW.written_by := current_user;
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER projections_sign BEFORE INSERT OR UPDATE OF name, schema_name, table_names, written_by
    ON tidemark.projections FOR EACH ROW EXECUTE FUNCTION tidemark.sign_projection();

-- claim_failed leases failed campaigns whose retry is due, for the projections that the caller
-- knows. It looks at the oldest p_limit of each projection, so none starves the others. It skips
-- paused projections. next_due is the earliest retry among the campaigns that are not leased.
CREATE OR REPLACE FUNCTION tidemark.claim_failed(p_group text, p_owner text, p_projections text[], p_limit integer,
    p_ttl interval,
        OUT campaign_ids text[], OUT generations bigint[], OUT checkpoints bigint[], OUT next_due timestamptz,
            OUT crashed_ids text[])
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    far CONSTANT timestamptz := at + p_ttl + interval '1 s';
    fallen CONSTANT text[] := tidemark.fallen(p_group);
    due_ids text[];
    idle_ids text[];
    new_ids text[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    campaign_ids := '{}'; generations := '{}'; checkpoints := '{}'; crashed_ids := '{}';
    IF EXISTS (SELECT FROM tidemark.pauses p WHERE p.scope = 'group' AND p.consumer_group = p_group AND p.name = ''
        AND p.expires_at > at) THEN
        RETURN;
    END IF;

    SELECT min(d.next_attempt_at), coalesce(array_agg(d.campaign_id) FILTER (WHERE d.next_attempt_at <= at), '{}')
        INTO next_due, due_ids
    FROM (
        SELECT d.campaign_id, d.next_attempt_at
        FROM unnest(p_projections) AS known (projection)
        CROSS JOIN LATERAL (SELECT FROM tidemark.projections p WHERE p.name = known.projection AND p.state = 'active'
            AND NOT EXISTS (SELECT FROM tidemark.pauses x WHERE x.scope = 'projection' AND x.consumer_group = p_group
                AND x.name = p.name AND x.expires_at > at) OFFSET 0) p
        CROSS JOIN LATERAL (
            SELECT d.campaign_id, d.next_attempt_at FROM tidemark.failed d
            WHERE d.consumer_group = p_group AND d.projection = known.projection AND d.next_attempt_at < 'infinity'
                AND NOT EXISTS (SELECT FROM tidemark.leases l WHERE l.consumer_group = p_group
                    AND l.campaign_id = d.campaign_id AND l.expires_at > at
                    AND l.owner <> ALL (fallen) AND NOT (l.expires_at > far AND l.owner <> 'paused'
                        AND tidemark.stranded(l.owner, l.expires_at)) OFFSET 0)
            ORDER BY d.consumer_group, d.projection, d.next_attempt_at
            LIMIT p_limit
        ) d
        ORDER BY d.next_attempt_at
        LIMIT p_limit
    ) d;
    IF cardinality(due_ids) > 0 THEN
        SELECT coalesce(array_agg(c.campaign_id) FILTER (WHERE l.known), '{}'),
            coalesce(array_agg(c.campaign_id) FILTER (WHERE l.known IS NULL), '{}')
        INTO idle_ids, new_ids
        FROM (SELECT DISTINCT unnest(due_ids) AS campaign_id) c
        LEFT JOIN LATERAL (
            SELECT true AS known FROM tidemark.leases l WHERE l.consumer_group = p_group
                AND l.campaign_id BETWEEN c.campaign_id AND c.campaign_id
            ORDER BY l.consumer_group DESC, l.campaign_id DESC LIMIT 1
        ) l ON true;
        SELECT a.campaign_ids, a.generations, a.checkpoints, a.crashed_ids
            INTO campaign_ids, generations, checkpoints, crashed_ids
        FROM tidemark.acquire_leases(p_group, p_owner, idle_ids, new_ids, p_ttl) AS a;
    END IF;
END
$$;
