-- Places of publishers, and of projections across campaigns.

-- guard_places keeps the places of projections from roles that only publish: who moves one makes a read
-- model or a process skip events, or react twice.
CREATE OR REPLACE FUNCTION tidemark.guard_places() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT has_table_privilege('tidemark.projections', 'UPDATE') THEN
        RAISE EXCEPTION 'role % may not change places of projections', quote_ident(current_user)
            USING ERRCODE = 'insufficient_privilege', HINT = 'change rows of publishers alone; workers have the others';
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END
$$;
CREATE OR REPLACE TRIGGER readers_insert BEFORE INSERT ON tidemark.readers
    FOR EACH ROW WHEN (NEW.kind = 'projection') EXECUTE FUNCTION tidemark.guard_places();
CREATE OR REPLACE TRIGGER readers_update BEFORE UPDATE ON tidemark.readers
    FOR EACH ROW WHEN (OLD.kind = 'projection' OR NEW.kind = 'projection') EXECUTE FUNCTION tidemark.guard_places();
CREATE OR REPLACE TRIGGER readers_delete BEFORE DELETE ON tidemark.readers
    FOR EACH ROW WHEN (OLD.kind = 'projection') EXECUTE FUNCTION tidemark.guard_places();

-- claim_readers leases the pairs that are free and active, or whose pause is over. If the
-- server's clock has gone back, a lease from the old time is free as soon as its owner is dead: no
-- lease runs that long. Rows are locked in the order of the key. A row that another transaction is
-- writing is skipped.
--
-- A lease that a projection's holder has left behind counts as a death, as for campaigns: not if the
-- owner was seen after half of the lease's last life, has no record, or if the server started since.
-- deaths is 0 unless the last owner has died; marked is the event that it was trying alone, or 0.
CREATE OR REPLACE FUNCTION tidemark.claim_readers(p_owner text, p_topics text[], p_publishers text[], p_ttl interval)
    RETURNS TABLE (topic text, publisher text, generation bigint, "position" bigint, error_count integer, wait interval,
        deaths integer, marked bigint)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    WITH free AS MATERIALIZED (
        SELECT f.place, f.died
        FROM (SELECT * FROM unnest(p_topics, p_publishers) AS u (topic, publisher) ORDER BY 1, 2) u CROSS JOIN LATERAL (
            SELECT p.ctid AS place, p.kind = 'projection' AND p.expires_at - p_ttl >= pg_postmaster_start_time()
                AND EXISTS (SELECT FROM tidemark.relays r WHERE r.owner = p.owner
                    AND r.seen_at <= p.expires_at - p_ttl / 2 OFFSET 0) AS died
            FROM tidemark.readers p
            WHERE p.topic = u.topic AND p.publisher = u.publisher AND (p.expires_at <= at
                    OR p.expires_at > at + p_ttl + interval '1 s' AND NOT EXISTS (
                        SELECT FROM tidemark.relays r WHERE r.owner = p.owner AND r.seen_at <= at + interval '1 s'
                            AND r.expires_at > at))
                AND (p.status = 'ACTIVE' OR p.status = 'PAUSED' AND p.paused_until <= at)
            FOR UPDATE SKIP LOCKED
        ) f
    )
    UPDATE tidemark.readers p SET owner = p_owner, generation = p.generation + 1, expires_at = at + p_ttl,
        status = 'ACTIVE',
        reason = NULL, actor = NULL, paused_until = 'infinity', deaths = p.deaths + f.died::integer,
        marked = CASE WHEN p.marked > 0 THEN -p.marked END
    FROM free f WHERE p.ctid = f.place
    RETURNING p.topic, p.publisher, p.generation, p.position, p.error_count, CASE
        WHEN p.next_attempt_at > at THEN p.next_attempt_at - at ELSE interval '0' END,
        CASE WHEN f.died THEN p.deaths ELSE 0 END, coalesce(-p.marked, 0);
END
$$;

-- move_readers moves the positions of pairs that the caller still holds, extends or releases
-- their leases, and returns those pairs. Positions never go back. It first locks rows in the order
-- of the key, then writes in a statement of its own whose snapshot has the locked rows (as in
-- advance). p_published counts the events sent. Sending any clears the pair's error.
CREATE OR REPLACE FUNCTION tidemark.move_readers(p_owner text, p_topics text[], p_publishers text[],
    p_generations bigint[], p_positions bigint[], p_published bigint[],
        p_release boolean[], p_ttl interval) RETURNS TABLE (topic text, publisher text)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    places tid[];
    positions bigint[];
    sent bigint[];
    releases boolean[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true); -- events of a position lost in a server crash are sent again
    SELECT array_agg(h.place), array_agg(u.position), array_agg(u.published), array_agg(u.release)
        INTO places, positions, sent, releases
    FROM (
        SELECT * FROM unnest(p_topics, p_publishers, p_generations, p_positions, p_published, p_release)
            AS u (topic, publisher, generation, position, published, release) ORDER BY 1, 2
    ) u
    CROSS JOIN LATERAL (
        SELECT p.ctid AS place FROM tidemark.readers p
        WHERE p.topic = u.topic AND p.publisher = u.publisher AND p.generation = u.generation AND p.owner = p_owner
        FOR UPDATE
    ) h;
    RETURN QUERY
    UPDATE tidemark.readers p
    SET position = greatest(p.position, m.position), published_count = p.published_count + m.published,
        last_published_at = CASE WHEN m.published > 0 THEN clock_timestamp() ELSE p.last_published_at END,
        error_count = CASE WHEN m.published > 0 THEN 0 ELSE p.error_count END,
        failing_since = CASE WHEN m.published > 0 THEN NULL ELSE p.failing_since END,
        next_attempt_at = CASE WHEN m.published > 0 THEN '-infinity' ELSE p.next_attempt_at END,
        expires_at = CASE WHEN m.release THEN '-infinity' ELSE clock_timestamp() + p_ttl END,
        deaths = CASE WHEN m.release THEN 0 ELSE p.deaths END, marked = CASE WHEN NOT m.release THEN p.marked END
    FROM unnest(places, positions, sent, releases) AS m (place, position, published, release)
    WHERE p.ctid = m.place
    RETURNING p.topic, p.publisher;
END
$$;

-- advance_reader moves the place of a partition of a projection and renews its lease. If the caller
-- does not hold it, the place has moved, or the database is not the instance that the caller has read, it
-- fails the transaction with TM010. p_events and p_hash
-- are the number and the hash of the events on the way. Who moves the place, or has survived the event
-- that it tried alone, is no longer suspect.
CREATE OR REPLACE FUNCTION tidemark.advance_reader(p_owner text, p_topic text, p_publisher text, p_generation bigint,
    p_from bigint, p_to bigint, p_events bigint, p_hash bigint, p_ttl interval, p_instance text) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE tidemark.readers r
    SET position = p_to, applied = r.applied + p_events, applied_hash = r.applied_hash # p_hash,
        expires_at = clock_timestamp() + p_ttl,
        deaths = CASE WHEN p_to > p_from OR r.marked > 0 THEN 0 ELSE r.deaths END,
        marked = CASE WHEN p_to <= p_from AND r.marked <= 0 THEN r.marked END
    WHERE r.topic = p_topic AND r.publisher = p_publisher AND r.owner = p_owner AND r.generation = p_generation
        AND r.position = p_from AND tidemark.instance() = p_instance;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the place of % % is lost', p_topic, p_publisher
            USING ERRCODE = 'TM010', HINT = 'another process has taken over, or another database: drop the work, claim again';
    END IF;
END
$$;
