-- Campaigns come back from archives.

-- unlike says how lines differ from what was archived of a campaign, whose stub has the mark.
CREATE OR REPLACE FUNCTION tidemark.unlike(p_campaign_id text, p_lines text, p_mark jsonb) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t record;
    event jsonb;
    stub record;
    n bigint := 0;
BEGIN
    FOR t IN SELECT l.line FROM string_to_table(rtrim(p_lines, E'\n'), E'\n') AS l (line) LOOP
        n := n + 1;
        event := t.line;
        SELECT j.position, j.event_id INTO stub FROM tidemark.journal j
        WHERE j.campaign_id = p_campaign_id AND j.seq = n;
        IF event ->> 'campaign_id' IS DISTINCT FROM p_campaign_id THEN
            RETURN format('line %s names campaign %s', n, left(event ->> 'campaign_id', 64));
        ELSIF event ->> 'seq' IS DISTINCT FROM n::text THEN
            RETURN format('line %s has seq %s', n, left(event ->> 'seq', 64));
        ELSIF event ->> 'position' <> stub.position::text THEN
            RETURN format('line %s has position %s, the event has %s', n, left(event ->> 'position', 64), stub.position);
        ELSIF event ->> 'id' <> stub.event_id::text THEN
            RETURN format('line %s has id %s, the event has %s', n, left(event ->> 'id', 64), stub.event_id);
        END IF;
    END LOOP;
    IF n::text <> p_mark ->> 'events' THEN
        RETURN format('there are %s lines, %s events were archived', n, p_mark ->> 'events');
    END IF;
    RETURN format('their SHA-256 is %s, not %s', encode(sha256(convert_to(p_lines, 'UTF8')), 'hex'), p_mark ->> 'hash');
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN format('line %s is not JSON', n);
END
$$;
REVOKE ALL ON FUNCTION tidemark.unlike FROM PUBLIC;

-- put_back writes lines of an archive in the place of campaigns' stubs.
CREATE OR REPLACE FUNCTION tidemark.put_back(p_campaign_ids text[], p_lines text[]) RETURNS void
    LANGUAGE plpgsql
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM tidemark.begin_change('restore');
    DELETE FROM tidemark.journal j USING unnest(p_campaign_ids) AS u (id) WHERE j.campaign_id = u.id;
    PERFORM tidemark.end_change();
    INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent,
        aggregate_type, aggregate_id, actor, tags, payload, metadata, payload_bytes, occurred_at, recorded_at)
    SELECT l.campaign_id, l.seq, l."position", l.id, l.type, l.version, l.intent, l.aggregate_type, l.aggregate_id,
        l.actor, l.tags, l.payload, l.metadata, l.payload_bytes, l.occurred_at, l.recorded_at
    FROM unnest(p_lines) AS u (lines) CROSS JOIN LATERAL string_to_table(rtrim(u.lines, E'\n'), E'\n') AS t (line)
    CROSS JOIN LATERAL jsonb_to_record(t.line::jsonb) AS l (campaign_id text, seq bigint, "position" bigint, id uuid,
        type text, version integer, intent tidemark.intent, aggregate_type text, aggregate_id text, actor text,
        tags text[], payload jsonb, metadata jsonb, payload_bytes integer, occurred_at timestamptz,
        recorded_at timestamptz);
END
$$;
REVOKE ALL ON FUNCTION tidemark.put_back FROM PUBLIC;

-- taken says which position of a campaign's lines belongs to another event, or returns NULL.
CREATE OR REPLACE FUNCTION tidemark.taken(p_campaign_id text, p_lines text) RETURNS text
    LANGUAGE sql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
        SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('position %s belongs to event %s of campaign %s: this database is a copy whose sequence was behind; '
        'run `tidemark copy repair`, and read the campaign in the archive', j.position, j.seq, left(j.campaign_id, 64))
    FROM string_to_table(rtrim(p_lines, E'\n'), E'\n') AS t (line)
    CROSS JOIN LATERAL jsonb_to_record(t.line::jsonb) AS l ("position" bigint)
    JOIN tidemark.journal j ON j.position = l."position" AND j.campaign_id <> p_campaign_id
    ORDER BY j.position LIMIT 1
$$;
REVOKE ALL ON FUNCTION tidemark.taken FROM PUBLIC;

-- log_restored writes to the log of operators that campaigns with these marks are back. If requests are served, a
-- campaign that an append has asked for has a row of its own.
CREATE OR REPLACE FUNCTION tidemark.log_restored(p_campaign_ids text[], p_marks jsonb[], p_serves boolean) RETURNS void
    LANGUAGE plpgsql
    SET timezone = 'UTC' SET datestyle = 'ISO'
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM tidemark.log_act(coalesce(r.asked_by, session_user),
        CASE WHEN r.asked_by IS NULL THEN 'events_restored' ELSE 'restored' END,
        CASE WHEN r.asked_by IS NOT NULL THEN 'an append asked for it' END, '', '',
        CASE WHEN cardinality(r.ids) = 1 THEN r.ids[1] END, 0, CASE WHEN r.asked_by IS NULL
            THEN jsonb_build_object('campaigns', r.ids, 'objects', r.objects, 'events', r.events)
            ELSE jsonb_build_object('request', jsonb_build_object('campaigns', r.ids, 'asked_at', r.asked_at)) END,
        '', 0, '')
    FROM (
        SELECT r.asked_by, r.asked_at, array_agg(u.id ORDER BY u.id) AS ids,
            array_agg(DISTINCT u.mark ->> 'object') AS objects, sum((u.mark ->> 'events')::bigint) AS events
        FROM unnest(p_campaign_ids, p_marks) AS u (id, mark)
        LEFT JOIN tidemark.restore_requests r ON r.campaign_id = u.id AND r.kept_until IS NULL AND p_serves
        GROUP BY r.asked_by, r.asked_at, r.campaign_id
    ) AS r;
END
$$;

-- restore puts the events of campaigns back in the place of their stubs. p_lines are the lines of each
-- campaign, which must have the hash that archive has computed. It returns the campaigns that it leaves, with
-- the reason: in a copy whose sequence was behind, another event may have a position of theirs. With p_keep it
-- serves requests, and not_archivable keeps their campaigns for so long.
CREATE OR REPLACE FUNCTION tidemark.restore(p_campaign_ids text[], p_lines text[], p_keep interval DEFAULT NULL)
    RETURNS TABLE (campaign_id text, reason text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET timezone = 'UTC' SET datestyle = 'ISO' SET enable_seqscan = off SET enable_bitmapscan = off
        SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
    SET lock_timeout = '300ms'
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    ids text[];
    texts text[];
    marks jsonb[];
    reasons text[];
    back integer[] := '{}';
    change record;
BEGIN
    PERFORM tidemark.require_batch('restore', p_campaign_ids, cardinality(p_lines));
    SELECT array_agg(c.id), array_agg(c.lines) INTO ids, texts
    FROM (SELECT u.id, u.lines, pg_try_advisory_xact_lock(tidemark.lock_key(32002, hashtextextended(u.id, 0))) AS free
        FROM unnest(p_campaign_ids, p_lines) AS u (id, lines)) AS c WHERE c.free;
    RETURN QUERY SELECT u.id, 'an append to it is open' FROM unnest(p_campaign_ids) AS u (id)
        WHERE u.id <> ALL (coalesce(ids, '{}'));
    SELECT array_agg(u.id), array_agg(u.lines), array_agg(h.mark), array_agg(CASE
        WHEN h.mark IS NULL THEN 'it is not archived'
        WHEN encode(sha256(convert_to(u.lines, 'UTF8')), 'hex') = h.mark ->> 'hash' THEN ''
        ELSE 'the lines are not those that were archived: ' || tidemark.unlike(u.id, coalesce(u.lines, ''), h.mark) END)
    INTO ids, texts, marks, reasons
    FROM unnest(ids, texts) AS u (id, lines) LEFT JOIN LATERAL (
        SELECT CASE WHEN j.event_version = 0 THEN j.metadata -> '$archived' END AS mark FROM tidemark.journal j
        WHERE j.campaign_id = u.id ORDER BY j.seq DESC LIMIT 1
    ) AS h ON true;
    RETURN QUERY SELECT u.id, u.reason FROM unnest(ids, reasons) AS u (id, reason) WHERE u.reason IS DISTINCT FROM '';
    SELECT array_agg(u.id), array_agg(u.lines), array_agg(u.mark) INTO ids, texts, marks
    FROM unnest(ids, texts, marks, reasons) AS u (id, lines, mark, reason) WHERE u.reason = '';
    IF ids IS NULL THEN
        RETURN;
    END IF;

    BEGIN
        PERFORM tidemark.put_back(ids, texts);
    EXCEPTION WHEN unique_violation THEN -- so each on its own
        FOR n IN 1 .. cardinality(ids) LOOP
            BEGIN
                PERFORM tidemark.put_back(ids[n:n], texts[n:n]);
                back := back || n;
            EXCEPTION WHEN unique_violation THEN
                campaign_id := ids[n];
                reason := coalesce(tidemark.taken(ids[n], texts[n]), SQLERRM);
                RETURN NEXT;
            END;
        END LOOP;
        IF back = '{}' THEN
            RETURN;
        END IF;
        SELECT array_agg(ids[b.n]), array_agg(marks[b.n]) INTO ids, marks FROM unnest(back) AS b (n);
    END;
    change := tidemark.begin_manifest();
    UPDATE tidemark.archives a SET campaigns = a.campaigns - m.campaigns, events = a.events - m.events,
        removed = a.removed - m.removed, removed_hash = a.removed_hash # m.removed_hash, lane = change.lane,
        changed_at = change.changed_at
    FROM (
        SELECT u.mark ->> 'object' AS object, count(*) AS campaigns, sum((u.mark ->> 'events')::bigint) AS events,
            sum((u.mark ->> 'removed')::bigint) AS removed, bit_xor((u.mark ->> 'removed_hash')::bigint) AS removed_hash
        FROM unnest(marks) AS u (mark) GROUP BY 1
    ) AS m
    WHERE a.object = m.object;
    PERFORM tidemark.log_restored(ids, marks, p_keep IS NOT NULL);
    UPDATE tidemark.restore_requests r SET error = '', kept_until = clock_timestamp() + coalesce(p_keep, '0')
    FROM unnest(ids) AS u (id) WHERE r.campaign_id = u.id AND r.kept_until IS NULL;
    INSERT INTO tidemark.retention_due (policy, campaign_id, due_at)
    SELECT t.policy, u.id, clock_timestamp() FROM unnest(ids) AS u (id) CROSS JOIN tidemark.retention t
    ORDER BY t.policy, u.id ON CONFLICT DO NOTHING;
END
$$;
REVOKE ALL ON FUNCTION tidemark.restore FROM PUBLIC;

-- ask_restore asks workers to bring an archived campaign back, and returns whether it is archived: if not,
-- append again. Call it after an append has failed with TM014, in another transaction, as often as you
-- like. It waits for an open transaction that asks for the same campaign: for 10 s, or for the session's
-- lock_timeout. It raises TM015 if no worker has served requests for 2 minutes, or 1,000 of them are open: a
-- few more if calls run at once.
CREATE OR REPLACE FUNCTION tidemark.ask_restore(p_campaign_id text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    most CONSTANT integer := 1000;
    patience text;
BEGIN
    IF (SELECT j.event_version FROM tidemark.journal j WHERE j.campaign_id = p_campaign_id ORDER BY j.seq DESC LIMIT 1)
        IS DISTINCT FROM 0 THEN
        RETURN false;
    ELSIF NOT EXISTS (SELECT FROM tidemark.duties d WHERE d.name = 'restore'
        AND d.expires_at > clock_timestamp() - interval '2 min') THEN
        RAISE EXCEPTION 'campaign % is archived, and no worker brings campaigns back: add restore to the file of TIDEMARK_RETENTION, or run `tidemark campaign restore`', left(p_campaign_id, 64)
            USING ERRCODE = 'TM015';
    ELSIF EXISTS (SELECT FROM tidemark.restore_requests r
        WHERE r.campaign_id = p_campaign_id AND r.kept_until IS NULL) THEN
        RETURN true;
    ELSIF (SELECT count(*) FROM tidemark.restore_requests r WHERE r.kept_until IS NULL) >= most THEN
        RAISE EXCEPTION '% requests for archived campaigns are open, which is the limit: `tidemark campaign requests` shows why', most
            USING ERRCODE = 'TM015';
    END IF;
    patience := tidemark.bound_wait();
    INSERT INTO tidemark.restore_requests AS r (campaign_id, asked_by, asked_at, attempt_at)
    VALUES (p_campaign_id, session_user, clock_timestamp(), clock_timestamp())
    ON CONFLICT (campaign_id) DO UPDATE SET asked_by = excluded.asked_by, asked_at = excluded.asked_at, attempts = 0,
        attempt_at = excluded.attempt_at, error = '', kept_until = NULL -- it was archived again
    WHERE r.kept_until IS NOT NULL;
    PERFORM set_config('lock_timeout', patience, true);
    RETURN true;
END
$$;
