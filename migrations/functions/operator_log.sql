-- The log of operators: a chain of hashes.

-- hash_log returns the hash of a row whose predecessor has the hash p_previous.
CREATE OR REPLACE FUNCTION tidemark.hash_log(p_previous bytea, p_row tidemark.operator_log) RETURNS bytea
    LANGUAGE sql STABLE
    RETURN sha256(p_previous || convert_to(jsonb_build_array(p_row.link, p_row.id, extract(epoch FROM p_row.at),
        p_row.actor,
        p_row.act, p_row.reason, p_row.topic, p_row.publisher, p_row.campaign_id, p_row.seq, p_row.detail, p_row.way,
        p_row.token_id, p_row.address, p_row.database_user)::text, 'UTF8'));

-- walk_log checks up to p_limit rows after the link p_link, whose hash is p_hash. It stops at the
-- first row that breaks the chain.
CREATE OR REPLACE FUNCTION tidemark.walk_log(p_link bigint, p_hash bytea, p_limit integer, OUT link bigint,
    OUT hash bytea, OUT fault text)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    r tidemark.operator_log;
BEGIN
    link := p_link;
    hash := p_hash;
    FOR r IN SELECT l.* FROM tidemark.operator_log l WHERE l.link > p_link ORDER BY l.link LIMIT p_limit LOOP
        IF r.link <> link + 1 THEN
            fault := format('link %s is missing before row %s', link + 1, r.id);
            RETURN;
        ELSIF r.hash IS DISTINCT FROM tidemark.hash_log(hash, r) THEN
            fault := format('row %s (link %s) was changed', r.id, r.link);
            RETURN;
        END IF;
        link := r.link;
        hash := r.hash;
    END LOOP;
END
$$;

-- log_act records an act. Roles can write to the log only through it. Empty texts and 0 become
-- NULL.
CREATE OR REPLACE FUNCTION tidemark.log_act(p_actor text, p_act text, p_reason text, p_topic text, p_publisher text,
    p_campaign_id text,
        p_seq bigint, p_detail jsonb, p_way text, p_token_id bigint, p_address text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO tidemark.operator_log (actor, act, reason, topic, publisher, campaign_id, seq, detail, way, token_id,
        address)
    VALUES (p_actor, p_act, nullif(p_reason, ''), nullif(p_topic, ''), nullif(p_publisher, ''),
        nullif(p_campaign_id, ''),
        nullif(p_seq, 0), p_detail, nullif(p_way, ''), nullif(p_token_id, 0), nullif(p_address, ''));
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.log_act FROM PUBLIC;

-- link_rows links the first 1,000 rows that are not linked yet: others may have left any number. The
-- caller holds the head's lock.
CREATE OR REPLACE FUNCTION tidemark.link_rows(head tidemark.operator_log_head) RETURNS tidemark.operator_log_head
    LANGUAGE plpgsql
    SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    before CONSTANT bigint := head.link;
    r tidemark.operator_log;
BEGIN
    FOR r IN SELECT l.* FROM tidemark.operator_log l WHERE l.link IS NULL ORDER BY l.id LIMIT 1000 LOOP
        head.link := head.link + 1;
        r.link := head.link;
        head.hash := tidemark.hash_log(head.hash, r);
        UPDATE tidemark.operator_log l SET link = r.link, hash = head.hash WHERE l.id = r.id;
    END LOOP;
    IF head.link > before THEN
        UPDATE tidemark.operator_log_head h SET link = head.link, hash = head.hash WHERE h.one;
    END IF;
    RETURN head;
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.link_rows FROM PUBLIC;

-- link_log runs once for each row at COMMIT. The first run links rows of the transaction, and before
-- them those that others have left. The lock on the head is the last one that the transaction takes, so
-- it is held only for the rest of the commit. A session that keeps it holds up no act: after 300 ms
-- the transaction leaves its rows to the next one.
CREATE OR REPLACE FUNCTION tidemark.link_log() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET lock_timeout = '300ms' SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    head tidemark.operator_log_head;
BEGIN
    IF current_setting('tidemark.unlinked', true) = pg_current_xact_id()::text
        OR NOT EXISTS (SELECT FROM tidemark.operator_log l WHERE l.id = NEW.id AND l.link IS NULL) THEN
        RETURN NULL;
    END IF;
    SELECT h.* INTO STRICT head FROM tidemark.operator_log_head h WHERE h.one FOR UPDATE;
    PERFORM tidemark.link_rows(head);
    RETURN NULL;
EXCEPTION WHEN lock_not_available THEN
    PERFORM set_config('tidemark.unlinked', pg_current_xact_id()::text, true); -- its other rows do not wait again
    RETURN NULL;
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.link_log FROM PUBLIC;
DROP TRIGGER IF EXISTS operator_log_link ON tidemark.operator_log; -- constraint triggers have no REPLACE
CREATE CONSTRAINT TRIGGER operator_log_link AFTER INSERT ON tidemark.operator_log
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tidemark.link_log();

-- guard_log lets link_log link a row and prune_log delete rows before its anchor. It refuses
-- everything else.
CREATE OR REPLACE FUNCTION tidemark.guard_log() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF OLD.link IS NULL AND NEW.link IS NOT NULL
            AND to_jsonb(NEW) - '{link,hash}'::text[] = to_jsonb(OLD) - '{link,hash}'::text[] THEN
            RETURN NEW;
        END IF;
    ELSIF TG_OP = 'DELETE' THEN
        IF OLD.link <= (SELECT h.pruned FROM tidemark.operator_log_head h WHERE h.one) THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION 'tidemark.operator_log is append-only: % is refused', TG_OP
        USING ERRCODE = 'TM009', HINT = 'tidemark.prune_log deletes what is old';
END
$$;
CREATE OR REPLACE TRIGGER operator_log_no_update BEFORE UPDATE OR DELETE ON tidemark.operator_log
    FOR EACH ROW EXECUTE FUNCTION tidemark.guard_log();
CREATE OR REPLACE TRIGGER operator_log_no_truncate BEFORE TRUNCATE ON tidemark.operator_log
    FOR EACH STATEMENT EXECUTE FUNCTION tidemark.guard_log();

-- prune_log deletes up to p_limit rows that are older than p_age and the head's keep, oldest first,
-- and returns their number. It stops at the first younger row. It refuses rows that break the
-- chain: they are evidence. First it links rows that acts have left. While another session holds the
-- head it does nothing.
CREATE OR REPLACE FUNCTION tidemark.prune_log(p_age interval, p_limit integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    head tidemark.operator_log_head;
    n bigint;
    walked record;
BEGIN
    IF p_age IS NULL OR coalesce(p_limit NOT BETWEEN 0 AND 1000000, true) THEN
        RAISE EXCEPTION 'prune_log(%, %)', quote_nullable(p_age), quote_nullable(p_limit)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use an age, and a limit of 0 to 1000000 rows';
    END IF;
    SELECT h.* INTO head FROM tidemark.operator_log_head h WHERE h.one FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    head := tidemark.link_rows(head);
    SELECT count(*) FILTER (WHERE old) INTO n FROM (
        SELECT bool_and(l.at < now() - greatest(p_age, head.keep)) OVER (ORDER BY l.link) AS old
        FROM tidemark.operator_log l WHERE l.link > head.pruned ORDER BY l.link LIMIT p_limit) o;
    SELECT w.* INTO walked FROM tidemark.walk_log(head.pruned, head.pruned_hash, n::integer) w;
    IF walked.fault IS NOT NULL THEN
        RAISE EXCEPTION 'the log of operators does not fit: %', walked.fault
            USING ERRCODE = 'TM009', HINT = 'tidemark doctor says more; nothing is pruned until it is explained';
    END IF;
    UPDATE tidemark.operator_log_head h SET pruned = walked.link, pruned_hash = walked.hash WHERE h.one;
    DELETE FROM tidemark.operator_log l WHERE l.link <= walked.link;
    RETURN n;
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.prune_log FROM PUBLIC;
