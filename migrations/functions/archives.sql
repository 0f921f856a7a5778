-- Archives of campaigns (docs/adr/0018).

-- require_positions raises TM014 if an archive has events after p_after and up to p_until. With p_types
-- it asks for events of these types alone. Readers of the journal call it, and learn names of objects.
CREATE OR REPLACE FUNCTION tidemark.require_positions(p_after bigint, p_until bigint, p_types text[] DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    most CONSTANT bigint := 1::bigint << 62; -- ranges have no greater bound
    span CONSTANT int8range := int8range(least(greatest(p_after, 0), most), least(greatest(p_after, p_until, 0), most),
        '(]');
    a tidemark.archives;
BEGIN
    IF EXISTS (SELECT FROM tidemark.archives x
        WHERE x.campaigns > 0 AND int8range(x.first_position, x.last_position, '[]') && span
            AND (p_types IS NULL OR x.event_types && p_types)) THEN
        SELECT * INTO a FROM tidemark.archives x
        WHERE x.campaigns > 0 AND int8range(x.first_position, x.last_position, '[]') && span
            AND (p_types IS NULL OR x.event_types && p_types)
        ORDER BY x.last_position LIMIT 1;
        RAISE EXCEPTION 'events after position % are archived in %, up to position %', p_after, a.object, a.last_position
            USING ERRCODE = 'TM014', HINT = 'set TIDEMARK_ARCHIVE_URL, bring them back with `tidemark campaign restore '
                '--object`, or read after them',
                DETAIL = jsonb_build_object('object', a.object, 'position', a.last_position)::text;
    END IF;
    RETURN true;
END
$$;

-- archive_mark returns 0 if no archive has events after p_after and up to p_until. Otherwise it returns a
-- number that each archive, each restore and another instance of the database change, so that a reader knows
-- whether it has all objects, and no others. It reads the last change of each lane. The changes are in the rows
-- themselves, so the mark of a copy is always that of its rows.
CREATE OR REPLACE FUNCTION tidemark.archive_mark(p_after bigint, p_until bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    most CONSTANT bigint := 1::bigint << 62; -- ranges have no greater bound
    span CONSTANT int8range := int8range(least(greatest(p_after, 0), most), least(greatest(p_after, p_until, 0), most),
        '(]');
BEGIN
    IF NOT EXISTS (SELECT FROM tidemark.archives x
        WHERE x.campaigns > 0 AND int8range(x.first_position, x.last_position, '[]') && span) THEN
        RETURN 0;
    END IF;
    RETURN (SELECT hashtextextended(coalesce(tidemark.instance(), ''), bit_xor(hashint8extended(
            (extract(epoch FROM c.changed_at) * 1000000)::bigint, lanes.n))) | 1
        FROM generate_series(0, 7) AS lanes (n) CROSS JOIN LATERAL (
            SELECT a.changed_at FROM tidemark.archives a WHERE a.lane = lanes.n ORDER BY a.changed_at DESC LIMIT 1
        ) AS c);
END
$$;

-- begin_manifest returns a lane and a time for a change of tidemark.archives. No other transaction has the lane
-- until this one ends, and no committed change in it is as late: otherwise a change that commits late would
-- not change the mark. Only the ninth change at once waits.
CREATE OR REPLACE FUNCTION tidemark.begin_manifest(OUT lane smallint, OUT changed_at timestamptz)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    SELECT n INTO lane FROM generate_series(0, 7) AS n
    WHERE pg_try_advisory_xact_lock(tidemark.lock_key(32010, n)) LIMIT 1;
    IF lane IS NULL THEN
        lane := 0;
        PERFORM pg_advisory_xact_lock(tidemark.lock_key(32010, 0));
    END IF;
    SELECT a.changed_at + interval '1 microsecond' INTO changed_at FROM tidemark.archives a
    WHERE a.lane = begin_manifest.lane ORDER BY a.changed_at DESC LIMIT 1;
    changed_at := greatest(changed_at, clock_timestamp());
END
$$;
REVOKE ALL ON FUNCTION tidemark.begin_manifest FROM PUBLIC;

-- archived_after returns the events in objects with events after p_after, up to p_most objects: those that
-- have an event of p_types, or all. since is the time of the first object's last append. within is true if
-- some of the events may be before p_after, or if there are more objects.
CREATE OR REPLACE FUNCTION tidemark.archived_after(p_after bigint, p_types text[], p_most integer)
    RETURNS TABLE (events bigint, since timestamptz, within boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    SELECT coalesce(sum(a.events) FILTER (WHERE p_types IS NULL OR a.event_types && p_types), 0)::bigint,
        min(a.last_recorded) FILTER (WHERE p_types IS NULL OR a.event_types && p_types),
        coalesce(bool_or(a.first_position <= p_after) OR count(*) >= p_most, false)
    FROM (SELECT * FROM tidemark.archives x WHERE x.campaigns > 0 AND x.last_position > p_after
        ORDER BY x.last_position LIMIT p_most) a;
END
$$;

-- is_archived reports whether an archived event has a place. Its id and content are in the object alone.
-- The last event of a campaign stays, with its id.
CREATE OR REPLACE FUNCTION tidemark.is_archived(p_campaign_id text, p_seq bigint, p_position bigint) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN coalesce((SELECT j.event_version = 0 AND j.seq > p_seq AND j.position > p_position FROM tidemark.journal j
        WHERE j.campaign_id = p_campaign_id AND j.seq >= p_seq ORDER BY j.seq LIMIT 1), false);

-- archive_lines returns the events of campaigns as lines of an archive, a row for each campaign that has
-- events, in the order of campaign and seq. A line has all columns; the first names are those of an export.
-- Each ends with a newline. No setting of the session changes it.
CREATE OR REPLACE FUNCTION tidemark.archive_lines(p_campaign_ids text[]) RETURNS TABLE (campaign_id text, lines text)
    LANGUAGE sql STABLE
    SET timezone = 'UTC' SET datestyle = 'ISO' SET enable_seqscan = off SET enable_bitmapscan = off
        SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT c.id, e.lines
    FROM (SELECT DISTINCT u.id COLLATE "C" AS id FROM unnest(p_campaign_ids) AS u (id) ORDER BY 1) AS c
    CROSS JOIN LATERAL (
        SELECT string_agg(s.line || E'\n', '') AS lines
        FROM (
            SELECT row_to_json(l)::text AS line
            FROM tidemark.journal j CROSS JOIN LATERAL (
                SELECT j.campaign_id, j.event_id AS id, j.event_type AS type, j.event_version AS version, j.intent,
                    j.aggregate_type, j.aggregate_id, j.actor, j.tags, j.payload, j.metadata, j.occurred_at, j.seq,
                    j."position", j.recorded_at, j.payload_bytes
            ) AS l
            WHERE j.campaign_id = c.id ORDER BY j.seq
        ) AS s
    ) AS e
    WHERE e.lines IS NOT NULL
    ORDER BY c.id
$$;
REVOKE ALL ON FUNCTION tidemark.archive_lines FROM PUBLIC;

-- not_archivable returns the campaigns that may not leave the journal, with the reason: something still
-- has to read their events.
CREATE OR REPLACE FUNCTION tidemark.not_archivable(p_campaign_ids text[]) RETURNS TABLE (campaign_id text, reason text)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
        SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    place record;
    behind record;
    busy CONSTANT text := (
        SELECT min(w.reason) FROM (
            SELECT format('a rebuild of %s is under way', r.projection) AS reason FROM tidemark.rebuilds r
            UNION ALL SELECT format('projection %s is not in step yet', p.name) FROM tidemark.projections p
                WHERE p.state <> 'active'
            UNION ALL SELECT format('erasure %s has not ended', e.id) FROM tidemark.erasures e WHERE e.ended_at IS NULL
        ) AS w);
BEGIN
    SELECT r.topic, r.publisher, r.position INTO place FROM tidemark.readers r ORDER BY r.position LIMIT 1;
    SELECT d.projection, d.campaign_id AS key, d.next_seq AS position INTO behind
    FROM tidemark.failed d JOIN tidemark.projections p ON p.name = d.projection AND p.scope = 'journal'
    ORDER BY d.next_seq LIMIT 1;
    RETURN QUERY
    SELECT c.id, w.reason
    FROM (SELECT DISTINCT u.id FROM unnest(p_campaign_ids) AS u (id)) AS c
    LEFT JOIN LATERAL (SELECT j.seq, j.position, j.event_version FROM tidemark.journal j WHERE j.campaign_id = c.id
        ORDER BY j.seq DESC LIMIT 1) AS h ON true
    CROSS JOIN LATERAL (SELECT CASE
        WHEN h.seq IS NULL THEN 'it has no events'
        WHEN h.event_version = 0 THEN 'it is archived already'
        WHEN busy IS NOT NULL THEN busy
        WHEN EXISTS (SELECT FROM tidemark.scheduled s WHERE s.campaign_id = c.id) THEN 'it has a scheduled append'
        WHEN EXISTS (SELECT FROM tidemark.parked k WHERE k.campaign_id = c.id) THEN 'an event of it is parked'
        WHEN place.position < h.position THEN format('%s of %s is at position %s, before its last event at %s',
            place.publisher, place.topic, place.position, h.position)
        WHEN behind.position <= h.position THEN format('key %s of %s waits at position %s', left(behind.key, 64),
            behind.projection, behind.position)
        ELSE coalesce(
            (SELECT format('group %s has work for it', o.consumer_group) FROM tidemark.consumer_groups g
                CROSS JOIN LATERAL (SELECT o.consumer_group FROM tidemark.outbox o WHERE o.consumer_group = g.name
                    AND o.campaign_id = c.id LIMIT 1) o LIMIT 1),
            (SELECT format('an append has asked for it, it is kept until %s', to_char(a.kept_until AT TIME ZONE 'UTC',
                    'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
                FROM tidemark.restore_requests a WHERE a.campaign_id = c.id AND a.kept_until > clock_timestamp()),
            (SELECT format('projection %s is behind in it (%s)', d.projection, d.status) FROM tidemark.failed d
                WHERE d.campaign_id = c.id LIMIT 1),
            (SELECT format('group %s stands at event %s of %s', g.name, coalesce(l.checkpoint, 0), h.seq)
                FROM tidemark.consumer_groups g LEFT JOIN LATERAL (SELECT l.checkpoint FROM tidemark.leases l
                    WHERE l.consumer_group = g.name AND l.campaign_id = c.id LIMIT 1) l ON true
                WHERE g.name > '' AND g.state <> 'across' AND coalesce(l.checkpoint, 0) <> h.seq LIMIT 1))
        END AS reason) AS w
    WHERE w.reason IS NOT NULL;
END
$$;
REVOKE ALL ON FUNCTION tidemark.not_archivable FROM PUBLIC;

-- require_batch refuses a call of archive or restore that would not see what it has locked, would lock too
-- much, or does not name each campaign once, with a value.
CREATE OR REPLACE FUNCTION tidemark.require_batch(p_act text, p_campaign_ids text[], p_values integer) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'tidemark.% needs READ COMMITTED: it looks at campaigns after it has locked them', p_act
            USING ERRCODE = 'TM008', HINT = 'begin another transaction';
    ELSIF cardinality(p_campaign_ids) > (tidemark.append_limits())[8] THEN
        RAISE EXCEPTION '%: % campaigns in one call, the limit is % (campaigns_per_transaction of tidemark.limits)',
            p_act, cardinality(p_campaign_ids), (tidemark.append_limits())[8]
            USING ERRCODE = 'TM011', HINT = format('%s them in several calls', p_act);
    ELSIF cardinality(p_campaign_ids) IS DISTINCT FROM p_values
        OR p_values <> (SELECT count(DISTINCT u.id) FROM unnest(p_campaign_ids) AS u (id)) THEN
        RAISE EXCEPTION '%: % campaigns with % values, or one of them is NULL or named twice', p_act,
            cardinality(p_campaign_ids), p_values
            USING ERRCODE = 'invalid_parameter_value', HINT = 'name each campaign once, with one value';
    END IF;
END
$$;
REVOKE ALL ON FUNCTION tidemark.require_batch FROM PUBLIC;

-- leave_stubs deletes the events of campaigns, but for those with tags and the last of each, which it makes stubs
-- with the mark p_archived. It returns how many events it has deleted, and a hash of their ids.
CREATE OR REPLACE FUNCTION tidemark.leave_stubs(p_campaign_ids text[], p_hashes bytea[], p_archived jsonb,
    OUT events bigint, OUT hash bigint)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    PERFORM tidemark.begin_change('archive');
    WITH heads AS MATERIALIZED (
        SELECT u.id, u.hash, h.seq, h.events FROM unnest(p_campaign_ids, p_hashes) AS u (id, hash)
        CROSS JOIN LATERAL (SELECT max(j.seq) AS seq, count(*) AS events FROM tidemark.journal j
            WHERE j.campaign_id = u.id) AS h
    ), deleted AS (
        DELETE FROM tidemark.journal j USING heads h
        WHERE j.campaign_id = h.id AND j.seq < h.seq AND coalesce(j.tags, '{}') = '{}'
        RETURNING j.campaign_id, uuid_hash_extended(j.event_id, 0) AS hash
    ), counted AS MATERIALIZED (
        SELECT d.campaign_id, count(*) AS n, bit_xor(d.hash) AS hash FROM deleted d GROUP BY d.campaign_id
    ), stubs AS (
        UPDATE tidemark.journal j SET event_version = 0, payload = '{}', payload_bytes = 2, tags = NULL, actor = NULL,
            aggregate_type = NULL, aggregate_id = NULL,
            metadata = jsonb_build_object('$archived', p_archived || CASE WHEN j.seq < h.seq THEN '{}'
                ELSE jsonb_build_object('hash', encode(h.hash, 'hex'), 'events', h.events, 'removed', coalesce(c.n, 0),
                'removed_hash', coalesce(c.hash, 0)) END)
        FROM heads h LEFT JOIN counted c ON c.campaign_id = h.id
        WHERE j.campaign_id = h.id AND (j.seq = h.seq OR j.tags <> '{}')
    )
    SELECT coalesce(sum(c.n), 0), coalesce(bit_xor(c.hash), 0) INTO events, hash FROM counted c;
    PERFORM tidemark.end_change();
END
$$;

-- unchanged returns those of the chosen campaigns whose lines have the hashes that the caller has read from an object,
-- so that what is deleted is what the object has. The hashes that it returns are its own. erased says whether one of
-- the object's campaigns has another hash, and an erased event.
CREATE OR REPLACE FUNCTION tidemark.unchanged(p_campaign_ids text[], p_hashes bytea[], p_chosen text[],
    OUT ids text[], OUT hashes bytea[], OUT erased boolean)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    WITH now AS MATERIALIZED (
        SELECT l.campaign_id AS id, sha256(convert_to(l.lines, 'UTF8')) AS hash
        FROM tidemark.archive_lines(p_campaign_ids) AS l
    )
    SELECT coalesce(array_agg(u.id) FILTER (WHERE u.hash = n.hash AND u.id = ANY (p_chosen)), '{}'),
        array_agg(n.hash) FILTER (WHERE u.hash = n.hash AND u.id = ANY (p_chosen)),
        coalesce(bool_or(u.hash IS DISTINCT FROM n.hash AND EXISTS (SELECT FROM tidemark.journal j
            WHERE j.campaign_id = u.id AND j.metadata ? '$erased')), false)
    INTO ids, hashes, erased
    FROM unnest(p_campaign_ids, p_hashes) AS u (id, hash) LEFT JOIN now n ON n.id = u.id;
END
$$;

-- archive takes campaigns that an object has out of the journal, and returns those that it leaves, with
-- the reason. It computes the SHA-256 of each campaign's lines under the campaign's lock and keeps it:
-- restore puts nothing else back. p_hashes are the hashes of what the caller has read from the object. They
-- decide one thing: a campaign that has another hash by now has changed, and stays. Events with tags stay as
-- stubs, so that conditions see them, and so does the last one, which keeps the campaign's head. A campaign's
-- lock is tried, never waited for. If an erasure has taken what a line of the object tells, none of its
-- campaigns is archived in it. An object may be written again, with more of its campaigns or others: its row
-- describes all that is archived in it now.
CREATE OR REPLACE FUNCTION tidemark.archive(p_object text, p_sha256 bytea, p_bytes bigint, p_campaign_ids text[],
    p_hashes bytea[], p_actor text, p_reason text) RETURNS TABLE (campaign_id text, reason text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
        SET jit = off
    SET lock_timeout = '300ms'
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    free text[];
    chosen text[];
    refused jsonb;
    hashes bytea[];
    erased boolean;
    total record;
    gone record;
    change record;
BEGIN
    PERFORM tidemark.require_batch('archive', p_campaign_ids, cardinality(p_hashes));
    PERFORM pg_advisory_xact_lock_shared(tidemark.lock_key(32009, 0)); -- an erasure begins before or after this
    SELECT coalesce(array_agg(c.id) FILTER (WHERE c.free), '{}') INTO free
    FROM (SELECT u.id, pg_try_advisory_xact_lock(tidemark.lock_key(32002, hashtextextended(u.id, 0))) AS free
        FROM unnest(p_campaign_ids) AS u (id)) AS c;
    RETURN QUERY SELECT u.id, 'an append to it is open' FROM unnest(p_campaign_ids) AS u (id)
        WHERE u.id <> ALL (free);
    SELECT coalesce(jsonb_object_agg(n.campaign_id, n.reason), '{}') INTO refused
    FROM tidemark.not_archivable(free) AS n;
    RETURN QUERY SELECT n.key, n.value FROM jsonb_each_text(refused) AS n;
    chosen := array(SELECT u.id FROM unnest(free) AS u (id) WHERE NOT refused ? u.id);
    SELECT u.ids, u.hashes, u.erased INTO free, hashes, erased
    FROM tidemark.unchanged(p_campaign_ids, p_hashes, chosen) AS u;
    IF erased THEN
        free := '{}';
    END IF;
    RETURN QUERY SELECT u.id, CASE WHEN erased THEN 'an event that was copied with it was erased meanwhile'
        ELSE 'it has changed since it was copied' END FROM unnest(chosen) AS u (id) WHERE u.id <> ALL (free);
    IF free = '{}' THEN
        RETURN;
    END IF;

    SELECT count(*) AS events, min(j.position) AS first, max(j.position) AS last, max(j.recorded_at) AS recorded,
        array_agg(DISTINCT j.event_type::text) AS types INTO total
    FROM unnest(free) AS u (id) CROSS JOIN LATERAL (SELECT j.position, j.recorded_at, j.event_type
        FROM tidemark.journal j WHERE j.campaign_id = u.id) AS j;
    gone := tidemark.leave_stubs(free, hashes, jsonb_build_object('object', p_object,
        'sha256', encode(p_sha256, 'hex'), 'bytes', p_bytes));
    change := tidemark.begin_manifest();
    INSERT INTO tidemark.archives AS a (object, sha256, bytes, campaigns, events, removed, removed_hash, first_position,
        last_position, last_recorded, event_types, members, actor, reason, lane, changed_at)
    VALUES (p_object, p_sha256, p_bytes, cardinality(free), total.events, gone.events, gone.hash, total.first,
        total.last, total.recorded, total.types, array(SELECT hashtextextended(u.id, 0)
            FROM unnest(p_campaign_ids) AS u (id)), p_actor, p_reason, change.lane, change.changed_at)
    ON CONFLICT (object) DO UPDATE SET sha256 = excluded.sha256, bytes = excluded.bytes,
        campaigns = a.campaigns + excluded.campaigns, events = a.events + excluded.events,
        removed = a.removed + excluded.removed, removed_hash = a.removed_hash # excluded.removed_hash,
        first_position = CASE WHEN a.campaigns = 0 THEN excluded.first_position
            ELSE least(a.first_position, excluded.first_position) END,
        last_position = CASE WHEN a.campaigns = 0 THEN excluded.last_position
            ELSE greatest(a.last_position, excluded.last_position) END,
        last_recorded = CASE WHEN a.campaigns = 0 THEN excluded.last_recorded
            ELSE greatest(a.last_recorded, excluded.last_recorded) END,
        event_types = CASE WHEN a.campaigns = 0 THEN excluded.event_types
            ELSE array(SELECT unnest(a.event_types) UNION SELECT unnest(excluded.event_types)) END,
        members = array(SELECT unnest(a.members) UNION SELECT unnest(excluded.members)),
        actor = excluded.actor, reason = excluded.reason, archived_at = excluded.archived_at,
        lane = excluded.lane, changed_at = excluded.changed_at
    WHERE a.campaigns = 0 OR a.sha256 = excluded.sha256;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'archive: object % has archived campaigns, with another SHA-256', p_object
            USING ERRCODE = 'TM004', HINT = 'write the events to an object with another name';
    END IF;
    PERFORM tidemark.log_act(p_actor, 'events_archived', p_reason, '', '',
        CASE WHEN cardinality(free) = 1 THEN free[1] END, 0, jsonb_build_object('object', p_object,
            'campaigns', free, 'events', total.events), '', 0, '');
END
$$;
REVOKE ALL ON FUNCTION tidemark.archive FROM PUBLIC;
