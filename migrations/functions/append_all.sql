-- Appends to several campaigns in one call.

-- append_all_rows is append_rows for several campaigns.
CREATE OR REPLACE FUNCTION tidemark.append_all_rows(p_batches jsonb)
    RETURNS TABLE (campaign_id text, seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    old_snapshot CONSTANT boolean := current_setting('transaction_isolation') IN ('repeatable read', 'serializable');
    batch record;
BEGIN
    FOR batch IN
        SELECT b ->> 'campaign_id' AS id, b -> 'events' AS events, (b ->> 'expect')::bigint AS expect
            FROM jsonb_array_elements(p_batches) AS b WHERE b -> 'events' <> '[]'
    LOOP
        IF old_snapshot THEN
            RETURN QUERY SELECT batch.id, a.* FROM tidemark.append_rows_of_snapshot(batch.id, batch.events,
                batch.expect) AS a;
        ELSE
            RETURN QUERY SELECT batch.id, a.* FROM tidemark.append_rows(batch.id, batch.events, batch.expect) AS a;
        END IF;
    END LOOP;
END
$$;

-- check_batches raises TM004 for an invalid call for several campaigns. Otherwise it returns true.
CREATE OR REPLACE FUNCTION tidemark.check_batches(p_batches jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    limits CONSTANT integer[] := tidemark.append_limits();
    bad text;
    unknown text;
    expect text;
    n bigint;
BEGIN
    IF coalesce(jsonb_typeof(p_batches), 'null') <> 'array'
        OR jsonb_path_exists(p_batches, 'strict $[*] ? (@.type() != "object")') THEN
        RAISE EXCEPTION 'append: the batches are a JSON %, they must be an array of objects',
            coalesce(jsonb_typeof(p_batches), 'null')
            USING ERRCODE = 'TM004';
    END IF;
    SELECT min(left(coalesce(b ->> 'campaign_id', ''), 64)) FILTER (WHERE coalesce(octet_length(b ->> 'campaign_id'),
        0) NOT BETWEEN 1 AND limits[1] OR jsonb_typeof(b -> 'campaign_id') <> 'string'
            OR coalesce(jsonb_typeof(b -> 'events'), 'null') <> 'array'),
        sum(CASE WHEN jsonb_typeof(b -> 'events') = 'array' THEN jsonb_array_length(b -> 'events') END),
        min((b - '{campaign_id,events,expect}'::text[])::text) FILTER
            (WHERE b - '{campaign_id,events,expect}'::text[] <> '{}'),
        min(left(b ->> 'expect', 64)) FILTER (WHERE b ->> 'expect' !~ '^-?[0-9]{1,18}$')
    INTO bad, n, unknown, expect FROM jsonb_array_elements(p_batches) AS b;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION 'campaign id %: it must have 1 to % bytes (campaign_id_bytes of tidemark.limits), and its events must be an array', quote_literal(bad), limits[1]
            USING ERRCODE = 'TM004';
    ELSIF unknown IS NOT NULL THEN
        RAISE EXCEPTION 'append: % is no field of a batch: known are campaign_id, events, expect',
            (SELECT left(min(k), 64) FROM jsonb_object_keys(unknown::jsonb) AS k)
            USING ERRCODE = 'TM004';
    ELSIF expect IS NOT NULL THEN
        RAISE EXCEPTION 'append: a batch expects %, it must be the seq of the last event, or 0', quote_literal(expect)
            USING ERRCODE = 'TM004';
    ELSIF n > limits[2] THEN
        RAISE EXCEPTION 'append: % events in one call, the limit is % (events_per_call of tidemark.limits)', n,
            limits[2]
            USING ERRCODE = 'TM004', HINT = 'append them in several calls';
    END IF;
    RETURN true;
END
$$;

-- append_all is append for several campaigns in one call. p_batches is an array of {"campaign_id",
-- "events", "expect"}.
CREATE OR REPLACE FUNCTION tidemark.append_all(p_batches jsonb)
    RETURNS TABLE (campaign_id text, seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    good CONSTANT boolean := tidemark.check_batches(p_batches);
    all_events CONSTANT jsonb := jsonb_path_query_array(p_batches, '$[*].events[*]');
BEGIN
    PERFORM tidemark.lock_keys(tidemark.touched_types(all_events), tidemark.touched_tags(all_events), '{}',
        array(SELECT DISTINCT b ->> 'campaign_id' FROM jsonb_array_elements(p_batches) AS b));
    RETURN QUERY SELECT * FROM tidemark.append_all_rows(p_batches);
END
$$;

-- append_all with text serves calls with a literal or an untyped parameter, as append does.
CREATE OR REPLACE FUNCTION tidemark.append_all(p_batches text)
    RETURNS TABLE (campaign_id text, seq bigint, "position" bigint, event_id uuid, duplicate boolean)
    LANGUAGE sql
BEGIN ATOMIC
    SELECT * FROM tidemark.append_all(tidemark.parsed_json(p_batches));
END;
