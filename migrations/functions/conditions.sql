-- Conditions on the events of any campaign: docs/guides/conditions.md. For the locks see
-- docs/adr/0008.

-- query_keys returns the keys that a condition on a query locks exclusively. For each term it is a
-- key that every selected event touches. p_terms is the result of tag_terms.
CREATE OR REPLACE FUNCTION tidemark.query_keys(p_query jsonb, p_terms text[]) RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    keys bigint[] := '{}';
BEGIN
    IF p_terms IS NOT NULL THEN
        FOR n IN 1 .. cardinality(p_terms) BY 2 LOOP
            keys := keys || tidemark.tag_key(p_terms[n], p_terms[n + 1]);
        END LOOP;
        RETURN keys;
    END IF;
    RETURN array(
        SELECT k.key
        FROM tidemark.query_terms(p_query) AS t
        CROSS JOIN LATERAL (
            SELECT tidemark.tag_key(CASE WHEN cardinality(t.tags) > 1 THEN tidemark.rarest_tag(t.tags)
                ELSE t.tags[1] END, t.event_type) WHERE t.tags <> '{}'
            UNION ALL SELECT tidemark.type_key(t.event_type) WHERE t.tags = '{}' AND t.event_type IS NOT NULL
            UNION ALL SELECT tidemark.lock_key(32006, bucket) FROM generate_series(0, 63) AS bucket
                WHERE t.tags = '{}' AND t.event_type IS NULL
        ) AS k (key));
END
$$;

-- require_fresh_snapshot fails unless the transaction's snapshot shows all committed events after
-- p_after. It serves REPEATABLE READ and SERIALIZABLE, which do not see commits after the
-- transaction's first statement. The snapshot is fresh if it shows every position handed out since
-- p_after, or if no transaction has committed that the snapshot considers running or does not know.
CREATE OR REPLACE FUNCTION tidemark.require_fresh_snapshot(p_after bigint) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    last CONSTANT bigint := coalesce(pg_sequence_last_value('tidemark.journal_position'), 0);
    xid bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    fresh boolean;
BEGIN
    IF last - p_after <= 10000 THEN
        SELECT count(*) >= last - p_after INTO fresh FROM tidemark.journal j WHERE j.position > p_after
            AND j.position <= last;
    END IF;
    IF fresh THEN
        RETURN;
    END IF;
    fresh := NOT EXISTS (SELECT FROM pg_snapshot_xip(pg_current_snapshot()) AS x (xid)
        WHERE pg_xact_status(x.xid) = 'committed');
    WHILE fresh LOOP
        BEGIN
            fresh := coalesce(pg_xact_status(xid::text::xid8), 'committed') <> 'committed';
            xid := xid + 1;
        EXCEPTION WHEN invalid_parameter_value THEN -- no transaction has this xid yet
            RETURN;
        END;
    END LOOP;
    RAISE EXCEPTION 'the transaction''s snapshot is older than what others have committed, so it cannot tell whether the condition holds'
        USING ERRCODE = '40001', HINT =
            'retry the transaction, with the conditional append as its first statement, or under READ COMMITTED';
END
$$;

-- lock_one is lock_keys for one event and a condition of few terms (p_terms from tag_terms), with
-- expressions and one query. It returns false and locks nothing if there were too many locks on
-- tags, or if a lock is not available within 300 ms.
CREATE OR REPLACE FUNCTION tidemark.lock_one(p_event jsonb, p_terms text[], p_campaign_id text) RETURNS boolean
    LANGUAGE plpgsql
    SET lock_timeout = '300ms'
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    type CONSTANT text := p_event ->> 'type';
    tags CONSTANT integer := CASE
        WHEN jsonb_typeof(p_event -> 'tags') = 'array' THEN jsonb_array_length(p_event -> 'tags') ELSE 0 END;
    held CONSTANT integer := coalesce(nullif(current_setting('tidemark.tags_locked', true), ''),
        '0')::integer + 2 * tags + cardinality(p_terms) / 2;
    shared bigint[] := ARRAY[tidemark.type_key(type)];
    exclusive bigint[] := '{}';
BEGIN
    IF held > 64 THEN
        RETURN false;
    END IF;
    FOR n IN 0 .. tags - 1 LOOP
        shared := shared || tidemark.tag_key(p_event -> 'tags' ->> n,
            NULL) || tidemark.tag_key(p_event -> 'tags' ->> n, type);
    END LOOP;
    FOR n IN 1 .. cardinality(p_terms) BY 2 LOOP
        exclusive := exclusive || tidemark.tag_key(p_terms[n], p_terms[n + 1]);
        shared := shared || tidemark.lock_key(32008, exclusive[(n + 1) / 2] & 63);
    END LOOP;
    -- Take the exclusive lock on a key first: upgrading a shared lock can deadlock.
    PERFORM CASE WHEN k.n > cardinality(shared) THEN pg_advisory_xact_lock(k.key)::text
        ELSE pg_advisory_xact_lock_shared(k.key)::text END
    FROM (SELECT u.key, u.n FROM unnest(shared || exclusive) WITH ORDINALITY AS u (key, n)
        ORDER BY u.key, u.n DESC) AS k;
    PERFORM set_config('tidemark.tags_locked', held::text, true);
    RETURN tidemark.lock_campaign(p_campaign_id);
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$$;

-- all_before reports whether the events of batches are in the journal already, by their ids. It raises TM003 for
-- some of them, and TM014 for an archived campaign.
CREATE OR REPLACE FUNCTION tidemark.all_before(p_batches jsonb) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    n bigint;
    known bigint;
BEGIN
    PERFORM tidemark.check_types(b.batch ->> 'campaign_id', b.batch -> 'events')
    FROM jsonb_array_elements(p_batches) AS b (batch);
    PERFORM tidemark.refuse_archived(b.batch ->> 'campaign_id', h.metadata)
    FROM jsonb_array_elements(p_batches) AS b (batch) CROSS JOIN LATERAL (
        SELECT j.event_version, j.metadata FROM tidemark.journal j WHERE j.campaign_id = b.batch ->> 'campaign_id'
        ORDER BY j.seq DESC LIMIT 1
    ) AS h WHERE h.event_version = 0;
    SELECT count(*), count(j.seq) INTO n, known
    FROM jsonb_array_elements(p_batches) AS b (batch)
    CROSS JOIN LATERAL jsonb_array_elements(b.batch -> 'events') AS e (event)
    LEFT JOIN LATERAL tidemark.find_event(b.batch ->> 'campaign_id', (e.event ->> 'id')::uuid) AS j ON true;
    IF known > 0 AND known < n THEN
        RAISE EXCEPTION 'append: % of its % events are in the journal already, the others are new', known, n
            USING ERRCODE = 'TM003', HINT = 'repeat an append with exactly the events it had at first';
    END IF;
    RETURN known > 0;
END
$$;

-- refuse_match raises TM020 for an event that matches a condition. It never returns.
CREATE OR REPLACE FUNCTION tidemark.refuse_match(p_position bigint, p_campaign_id text, p_seq bigint, p_type text,
    p_item integer, p_after bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'event % of campaign % (%) at position % matches item % of the condition',
        p_seq, left(p_campaign_id, 64), p_type, p_position, p_item
        USING ERRCODE = 'TM020', HINT = 'read the new events, decide again, append again',
            DETAIL = jsonb_build_object('position', p_position, 'campaign', p_campaign_id, 'seq', p_seq, 'type', p_type,
                'item', p_item, 'after', p_after)::text;
END
$$;

-- append_if is append_all on the condition that no event after a position matches a query.
-- p_condition is {"failIfEventsMatch": query, "after": position} with an optional "seen": later
-- positions that do not count.
-- It refuses positions beyond the end of the journal: such a caller read them from another journal,
-- or from one that lost data since, and would miss the events that get those positions here. With a
-- "history", that of tidemark.history before the read, it also refuses positions up to which the journal
-- may have other events by now. Events that are in the journal already are returned with their places,
-- whatever the condition.
-- Locks come first: a concurrent append of an event that the query selects has either committed,
-- and is visible, or waits. The check is a later statement, which has a snapshot of its own under
-- READ COMMITTED. With p_keep a conflicting event is not an error: it is returned as the only row,
-- with a NULL event_id. The locks stay, so the caller can decide again without another append in
-- between. It is long: with one client, each further function that it called would add 8 to 17 µs to 440.
CREATE OR REPLACE FUNCTION tidemark.append_if(p_batches jsonb, p_condition jsonb, p_keep boolean DEFAULT false)
    RETURNS TABLE (campaign_id text, seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    query CONSTANT jsonb := p_condition -> 'failIfEventsMatch';
    after CONSTANT bigint := CASE WHEN p_condition ->> 'after' IS NULL THEN 0
        WHEN p_condition ->> 'after' ~ '^-?[0-9]{1,18}$' THEN (p_condition ->> 'after')::bigint
        WHEN p_condition ->> 'after' ~ '^-?[0-9]{19}$' THEN least(greatest((p_condition ->> 'after')::numeric,
            -9223372036854775808), 9223372036854775807)::bigint END;
    history CONSTANT text := coalesce(p_condition ->> 'history', '');
    terms CONSTANT text[] := tidemark.tag_terms(query);
    single CONSTANT boolean := jsonb_typeof(p_batches) = 'array' AND jsonb_array_length(p_batches) = 1;
    campaign CONSTANT text := p_batches -> 0 ->> 'campaign_id'; -- if single
    expect CONSTANT bigint := CASE WHEN p_batches -> 0 ->> 'expect' ~ '^-?[0-9]{1,18}$'
        THEN (p_batches -> 0 ->> 'expect')::bigint END; -- if single
    events CONSTANT jsonb := CASE WHEN single
        AND jsonb_typeof(p_batches -> 0 -> 'events') = 'array' THEN p_batches -> 0 -> 'events'
        ELSE jsonb_path_query_array(p_batches, '$[*].events[*]') END;
    last_position CONSTANT bigint := coalesce(pg_sequence_last_value('tidemark.journal_position'), 0);
    last_known bigint := after;
    seen bigint[] := '{}';
    taken boolean;
    known boolean := false;
    conflict record;
BEGIN
    IF NOT single OR NOT coalesce((p_batches -> 0) - '{campaign_id,events,expect}'::text[] = '{}'
        AND jsonb_typeof(p_batches -> 0 -> 'events') = 'array'
        AND jsonb_typeof(p_batches -> 0 -> 'campaign_id') = 'string'
        AND (expect IS NOT NULL OR p_batches -> 0 ->> 'expect' IS NULL)
        AND jsonb_array_length(events) <= (tidemark.append_limits())[2] AND octet_length(campaign) BETWEEN 1
            AND (tidemark.append_limits())[1], false) THEN
        taken := tidemark.check_batches(p_batches);
    END IF;
    IF coalesce(jsonb_typeof(p_condition), 'null') <> 'object'
        OR p_condition - '{failIfEventsMatch,after,seen,history}'::text[] <> '{}' OR after IS NULL
        OR p_condition ? 'seen' AND NOT coalesce(jsonb_path_match(p_condition, 'strict $.seen.type() == "array"
            && !exists($.seen[*] ? (@.type() != "number" || @.floor() != @ || @ > 9223372036854775807))'), false) THEN
        RAISE EXCEPTION 'condition %: it must be an object of "failIfEventsMatch", "after", "seen" and "history", with positions as integers',
            left(coalesce(p_condition::text, 'NULL'), 256)
            USING ERRCODE = 'TM004';
    ELSIF coalesce(events, '[]') = '[]' THEN
        RAISE EXCEPTION 'append: there are no events' USING ERRCODE = 'TM004',
            HINT = 'a condition alone decides nothing: append what was decided';
    END IF;
    IF p_condition ? 'seen' THEN
        seen := array(SELECT jsonb_array_elements_text(p_condition -> 'seen')::bigint);
        last_known := greatest(after, (SELECT max(position) FROM unnest(seen) AS s (position)));
    END IF;
    IF after < 0 OR history = '' AND last_known > last_position THEN
        RAISE EXCEPTION 'condition: it knows position %, the journal goes from 1 to %', CASE WHEN after < 0 THEN after
            ELSE last_known END, last_position
            USING ERRCODE = 'TM004', HINT =
                'read again and decide again: "after" is a position that tidemark.read or tidemark.read_floor answered, or 0',
                DETAIL = jsonb_build_object('known', CASE WHEN after < 0 THEN after
                    ELSE last_known END, 'last', last_position)::text;
    END IF;
    IF NOT single OR terms IS NULL OR jsonb_array_length(events) > 1
        OR NOT tidemark.lock_one(events -> 0, terms, campaign) THEN
        taken := tidemark.lock_keys(tidemark.touched_types(events), tidemark.touched_tags(events),
            tidemark.query_keys(query, terms),
            array(SELECT DISTINCT b ->> 'campaign_id' FROM jsonb_array_elements(p_batches) AS b));
    END IF;

    IF jsonb_path_exists(events, '$[*].id') THEN
        known := tidemark.all_before(p_batches);
    END IF;
    IF NOT known AND history <> '' AND (last_known > last_position OR history IS DISTINCT FROM tidemark.history())
        AND tidemark.resume(last_known, history) < last_known THEN
        RAISE EXCEPTION 'condition: it knows the journal up to %, which may have other events up to there by now',
            last_known || '@' || left(history, 64)
            USING ERRCODE = 'TM004', HINT = 'read again and decide again: a failover, a restore or a crash has taken '
                'commits, or it was read from another journal',
                DETAIL = jsonb_build_object('known', last_known, 'history', left(history, 64))::text;
    END IF;
    IF NOT known THEN
        -- Usually nothing matches, which this finds without the rest of query_matches.
        IF cardinality(terms) = 2 THEN
            PERFORM FROM tidemark.event_tags g WHERE g.tag = terms[1] AND g.event_type = terms[2]
                AND g.position > after AND g.position <> ALL (seen)
            ORDER BY g.tag, g.event_type, g.position LIMIT 1;
        ELSIF terms IS NOT NULL THEN
            PERFORM FROM generate_series(1, cardinality(terms), 2) AS t (n)
            CROSS JOIN LATERAL (
                SELECT FROM tidemark.event_tags g WHERE g.tag = terms[t.n] AND g.event_type = terms[t.n + 1]
                    AND g.position > after AND g.position <> ALL (seen)
                ORDER BY g.tag, g.event_type, g.position LIMIT 1
            ) AS m LIMIT 1;
        END IF;
        IF terms IS NULL OR FOUND THEN
            SELECT m.position, m.item, j.campaign_id, j.seq, j.event_type INTO conflict
            FROM tidemark.query_matches(query, after, 9223372036854775807, 1, seen) AS m
            -- With an equality the planner would drop the ORDER BY and could choose another index.
            CROSS JOIN LATERAL (SELECT * FROM tidemark.journal j WHERE j.position BETWEEN m.position AND m.position
                ORDER BY j.position LIMIT 1) AS j;
            IF FOUND AND p_keep THEN
                RETURN QUERY SELECT conflict.campaign_id, conflict.seq, conflict.position, NULL::uuid, NULL::boolean;
                RETURN;
            ELSIF FOUND THEN
                PERFORM tidemark.refuse_match(conflict.position, conflict.campaign_id, conflict.seq,
                    conflict.event_type, conflict.item, after);
            END IF;
        END IF;
        IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
            PERFORM tidemark.require_fresh_snapshot(after);
        END IF;
    END IF;
    IF single AND current_setting('transaction_isolation') = 'read committed' THEN -- the shortest path
        -- Pass only variables: with expressions Postgres planned each call again.
        RETURN QUERY SELECT campaign, a.* FROM tidemark.append_rows(campaign, events, expect) AS a;
    ELSE
        RETURN QUERY SELECT * FROM tidemark.append_all_rows(p_batches);
    END IF;
END
$$;

-- append_if with text serves calls with a literal or an untyped parameter, as append does.
CREATE OR REPLACE FUNCTION tidemark.append_if(p_batches text, p_condition text, p_keep boolean DEFAULT false)
    RETURNS TABLE (campaign_id text, seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE sql
BEGIN ATOMIC
    SELECT * FROM tidemark.append_if(tidemark.parsed_json(p_batches), tidemark.parsed_json(p_condition), p_keep);
END;
