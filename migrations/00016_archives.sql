-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- Objects that have the events of archived campaigns (docs/adr/0018). Positions, types and times bound
-- what an object had since all of it was last restored. The other numbers are of the campaigns that are
-- not restored.
CREATE TABLE tidemark.archives (
    object         text COLLATE "C" PRIMARY KEY CHECK (object <> ''),
    sha256         bytea       NOT NULL CHECK (octet_length(sha256) = 32),
    bytes          bigint      NOT NULL CHECK (bytes > 0),
    campaigns      bigint      NOT NULL,
    events         bigint      NOT NULL,
    removed        bigint      NOT NULL,
    removed_hash   bigint      NOT NULL,
    first_position bigint      NOT NULL,
    last_position  bigint      NOT NULL,
    last_recorded  timestamptz NOT NULL,
    event_types    text[]      NOT NULL,
    members        bigint[]    NOT NULL,
    actor          text COLLATE "C" NOT NULL,
    reason         text        NOT NULL,
    archived_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    lane           smallint    NOT NULL DEFAULT 0,
    changed_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE tidemark.archives IS 'Objects with the events of archived campaigns: the manifest (docs/adr/0018).';
COMMENT ON COLUMN tidemark.archives.object IS 'name in the archive';
COMMENT ON COLUMN tidemark.archives.sha256 IS 'SHA-256 of the object';
COMMENT ON COLUMN tidemark.archives.bytes IS 'size of the object';
COMMENT ON COLUMN tidemark.archives.campaigns IS 'campaigns that are not restored';
COMMENT ON COLUMN tidemark.archives.events IS 'events of these campaigns';
COMMENT ON COLUMN tidemark.archives.removed IS 'events of these that are not in the journal, not even as stubs';
COMMENT ON COLUMN tidemark.archives.removed_hash IS 'XOR of uuid_hash_extended(event_id, 0) over the removed events';
COMMENT ON COLUMN tidemark.archives.first_position IS 'position of the first event of the object';
COMMENT ON COLUMN tidemark.archives.last_position IS 'position of its last event';
COMMENT ON COLUMN tidemark.archives.last_recorded IS 'time of the append that was last';
COMMENT ON COLUMN tidemark.archives.event_types IS 'types of its events';
COMMENT ON COLUMN tidemark.archives.members IS
    'hashtextextended(campaign_id, 0) of all campaigns that it has lines of, restored ones too';
COMMENT ON COLUMN tidemark.archives.actor IS 'operator';
COMMENT ON COLUMN tidemark.archives.reason IS 'reason of the operator';
COMMENT ON COLUMN tidemark.archives.archived_at IS 'time at which the events left the journal';
COMMENT ON COLUMN tidemark.archives.lane IS 'lane of its last change: changes that run at once have different ones';
COMMENT ON COLUMN tidemark.archives.changed_at IS 'time of its last change, by which archive_mark tells changes apart';

CREATE INDEX archives_position_idx ON tidemark.archives (last_position);

-- Each position read asks whether an archive is in its way: almost always an index without entries.
CREATE INDEX archives_span_idx ON tidemark.archives USING gist (int8range(first_position, last_position, '[]'))
    WHERE campaigns > 0;

CREATE INDEX archives_changed_idx ON tidemark.archives (lane, changed_at);

-- Erasures ask which objects have lines of a campaign.
CREATE INDEX archives_members_idx ON tidemark.archives USING gin (members);

-- Policies by which workers archive closed campaigns, and their last runs.
CREATE TABLE tidemark.retention (
    policy      text COLLATE "C" PRIMARY KEY,
    closed_for  interval    NOT NULL,
    event_types text[]      NOT NULL,
    every       interval    NOT NULL,
    rate        integer     NOT NULL,
    began_at    timestamptz,
    ended_at    timestamptz,
    campaigns   bigint      NOT NULL DEFAULT 0,
    events      bigint      NOT NULL DEFAULT 0,
    left_out    bigint      NOT NULL DEFAULT 0,
    reasons     jsonb       NOT NULL DEFAULT '[]',
    error       text        NOT NULL DEFAULT '',
    position    bigint
);
COMMENT ON TABLE tidemark.retention IS 'Policies by which workers archive closed campaigns, with their last runs.';
COMMENT ON COLUMN tidemark.retention.policy IS 'name in the file';
COMMENT ON COLUMN tidemark.retention.closed_for IS 'time since the last event of a campaign';
COMMENT ON COLUMN tidemark.retention.event_types IS 'types of the last event of a closed campaign';
COMMENT ON COLUMN tidemark.retention.every IS 'time between the beginnings of two runs';
COMMENT ON COLUMN tidemark.retention.rate IS 'most events a second';
COMMENT ON COLUMN tidemark.retention.began_at IS 'beginning of the last run';
COMMENT ON COLUMN tidemark.retention.ended_at IS 'its end, NULL while it runs or if it was interrupted';
COMMENT ON COLUMN tidemark.retention.campaigns IS 'campaigns that it has archived';
COMMENT ON COLUMN tidemark.retention.events IS 'their events';
COMMENT ON COLUMN tidemark.retention.left_out IS 'closed campaigns that it has left in the journal';
COMMENT ON COLUMN tidemark.retention.reasons IS 'the first of these, with the reason';
COMMENT ON COLUMN tidemark.retention.error IS 'what has stopped it';
COMMENT ON COLUMN tidemark.retention.position IS
    'up to which it has seen events, NULL before it has been through all campaigns';

-- Campaigns that a policy looks at, and no others: those with a closing event since it began, those that it
-- had to leave, and those that are back from the archive.
CREATE TABLE tidemark.retention_due (
    policy      text COLLATE "C" NOT NULL REFERENCES tidemark.retention ON DELETE CASCADE,
    campaign_id text COLLATE "C" NOT NULL,
    due_at      timestamptz      NOT NULL,
    PRIMARY KEY (policy, campaign_id)
);
COMMENT ON TABLE tidemark.retention_due IS
    'Campaigns that policies of retention look at: closed, left in the journal, or back from the archive.';
COMMENT ON COLUMN tidemark.retention_due.policy IS 'name of the policy';
COMMENT ON COLUMN tidemark.retention_due.campaign_id IS 'campaign';
COMMENT ON COLUMN tidemark.retention_due.due_at IS 'time from which the policy may archive it';
CREATE INDEX retention_due_idx ON tidemark.retention_due (policy, due_at, campaign_id);

-- Archived campaigns that appends need, until workers have brought them back and for as long as these
-- are not archived again.
CREATE TABLE tidemark.restore_requests (
    campaign_id text COLLATE "C" PRIMARY KEY,
    asked_by    text COLLATE "C" NOT NULL,
    asked_at    timestamptz      NOT NULL,
    attempts    integer          NOT NULL DEFAULT 0,
    attempt_at  timestamptz      NOT NULL,
    error       text             NOT NULL DEFAULT '',
    kept_until  timestamptz
);
COMMENT ON TABLE tidemark.restore_requests IS 'Archived campaigns that appends have asked for: tidemark.ask_restore.';
COMMENT ON COLUMN tidemark.restore_requests.campaign_id IS 'campaign to bring back';
COMMENT ON COLUMN tidemark.restore_requests.asked_by IS 'login of the program';
COMMENT ON COLUMN tidemark.restore_requests.asked_at IS 'time of the request';
COMMENT ON COLUMN tidemark.restore_requests.attempts IS 'attempts to bring it back';
COMMENT ON COLUMN tidemark.restore_requests.attempt_at IS 'time of the next attempt';
COMMENT ON COLUMN tidemark.restore_requests.error IS 'what the last attempt has met';
COMMENT ON COLUMN tidemark.restore_requests.kept_until IS
    'time until which it is not archived again, NULL while it is not back';

-- Workers look for due requests each second: almost always an index without entries.
CREATE INDEX restore_requests_attempt_idx ON tidemark.restore_requests (attempt_at) WHERE kept_until IS NULL;

-- require_positions raises TM014 if an archive has events after p_after and up to p_until. With p_types
-- it asks for events of these types alone. Readers of the journal call it, and learn names of objects.
-- +goose StatementBegin
CREATE FUNCTION tidemark.require_positions(p_after bigint, p_until bigint, p_types text[] DEFAULT NULL)
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
-- +goose StatementEnd

-- archive_mark returns 0 if no archive has events after p_after and up to p_until. Otherwise it returns a
-- number that each archive, each restore and another instance of the database change, so that a reader knows
-- whether it has all objects, and no others. It reads the last change of each lane. The changes are in the rows
-- themselves, so the mark of a copy is always that of its rows.
-- +goose StatementBegin
CREATE FUNCTION tidemark.archive_mark(p_after bigint, p_until bigint) RETURNS bigint
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
-- +goose StatementEnd

-- begin_manifest returns a lane and a time for a change of tidemark.archives. No other transaction has the lane
-- until this one ends, and no committed change in it is as late: otherwise a change that commits late would
-- not change the mark. Only the ninth change at once waits.
-- +goose StatementBegin
CREATE FUNCTION tidemark.begin_manifest(OUT lane smallint, OUT changed_at timestamptz)
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
-- +goose StatementEnd

-- archived_after returns the events in objects with events after p_after, up to p_most objects: those that
-- have an event of p_types, or all. since is the time of the first object's last append. within is true if
-- some of the events may be before p_after, or if there are more objects.
-- +goose StatementBegin
CREATE FUNCTION tidemark.archived_after(p_after bigint, p_types text[], p_most integer)
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
-- +goose StatementEnd

-- is_archived reports whether an archived event has a place. Its id and content are in the object alone.
-- The last event of a campaign stays, with its id.
-- +goose StatementBegin
CREATE FUNCTION tidemark.is_archived(p_campaign_id text, p_seq bigint, p_position bigint) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN coalesce((SELECT j.event_version = 0 AND j.seq > p_seq AND j.position > p_position FROM tidemark.journal j
        WHERE j.campaign_id = p_campaign_id AND j.seq >= p_seq ORDER BY j.seq LIMIT 1), false);
-- +goose StatementEnd

-- archive_lines returns the events of campaigns as lines of an archive, a row for each campaign that has
-- events, in the order of campaign and seq. A line has all columns; the first names are those of an export.
-- Each ends with a newline. No setting of the session changes it.
-- +goose StatementBegin
CREATE FUNCTION tidemark.archive_lines(p_campaign_ids text[]) RETURNS TABLE (campaign_id text, lines text)
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
-- +goose StatementEnd

-- not_archivable returns the campaigns that may not leave the journal, with the reason: something still
-- has to read their events.
-- +goose StatementBegin
CREATE FUNCTION tidemark.not_archivable(p_campaign_ids text[]) RETURNS TABLE (campaign_id text, reason text)
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
    FROM tidemark.deferred d JOIN tidemark.projections p ON p.name = d.projection AND p.scope = 'journal'
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
            (SELECT format('projection %s is behind in it (%s)', d.projection, d.status) FROM tidemark.deferred d
                WHERE d.campaign_id = c.id LIMIT 1),
            (SELECT format('group %s stands at event %s of %s', g.name, coalesce(l.checkpoint, 0), h.seq)
                FROM tidemark.consumer_groups g LEFT JOIN LATERAL (SELECT l.checkpoint FROM tidemark.leases l
                    WHERE l.consumer_group = g.name AND l.campaign_id = c.id LIMIT 1) l ON true
                WHERE g.name > '' AND g.state <> 'across' AND coalesce(l.checkpoint, 0) <> h.seq LIMIT 1))
        END AS reason) AS w
    WHERE w.reason IS NOT NULL;
END
$$;
-- +goose StatementEnd

-- require_batch refuses a call of archive or restore that would not see what it has locked, would lock too
-- much, or does not name each campaign once, with a value.
-- +goose StatementBegin
CREATE FUNCTION tidemark.require_batch(p_act text, p_campaign_ids text[], p_values integer) RETURNS void
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
-- +goose StatementEnd

-- archive takes campaigns that an object has out of the journal, and returns those that it leaves, with
-- the reason. It computes the SHA-256 of each campaign's lines under the campaign's lock and keeps it:
-- restore puts nothing else back. p_hashes are the hashes of what the caller has read from the object. They
-- decide one thing: a campaign that has another hash by now has changed, and stays. Events with tags stay as
-- stubs, so that conditions see them, and so does the last one, which keeps the campaign's head. A campaign's
-- lock is tried, never waited for. If an erasure has taken what a line of the object tells, none of its
-- campaigns is archived in it. An object may be written again, with more of its campaigns or others: its row
-- describes all that is archived in it now.
-- +goose StatementBegin
CREATE FUNCTION tidemark.archive(p_object text, p_sha256 bytea, p_bytes bigint, p_campaign_ids text[],
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
    -- What is deleted is what the object has.
    WITH now AS MATERIALIZED (
        SELECT l.campaign_id AS id, sha256(convert_to(l.lines, 'UTF8')) AS hash
        FROM tidemark.archive_lines(p_campaign_ids) AS l
    )
    SELECT coalesce(array_agg(u.id) FILTER (WHERE u.hash = n.hash AND u.id = ANY (chosen)), '{}'),
        array_agg(n.hash) FILTER (WHERE u.hash = n.hash AND u.id = ANY (chosen)),
        coalesce(bool_or(u.hash IS DISTINCT FROM n.hash AND EXISTS (SELECT FROM tidemark.journal j
            WHERE j.campaign_id = u.id AND j.metadata ? '$erased')), false)
    INTO free, hashes, erased
    FROM unnest(p_campaign_ids, p_hashes) AS u (id, hash) LEFT JOIN now n ON n.id = u.id;
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
    PERFORM tidemark.begin_change('archive');
    WITH heads AS MATERIALIZED (
        SELECT u.id, u.hash, h.seq, h.events FROM unnest(free, hashes) AS u (id, hash)
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
            metadata = jsonb_build_object('$archived', jsonb_build_object('object', p_object,
                'sha256', encode(p_sha256, 'hex'), 'bytes', p_bytes) || CASE WHEN j.seq < h.seq THEN '{}'
                ELSE jsonb_build_object('hash', encode(h.hash, 'hex'), 'events', h.events, 'removed', coalesce(c.n, 0),
                'removed_hash', coalesce(c.hash, 0)) END)
        FROM heads h LEFT JOIN counted c ON c.campaign_id = h.id
        WHERE j.campaign_id = h.id AND (j.seq = h.seq OR j.tags <> '{}')
    )
    SELECT coalesce(sum(c.n), 0) AS n, coalesce(bit_xor(c.hash), 0) AS hash INTO gone FROM counted c;
    PERFORM tidemark.end_change();
    change := tidemark.begin_manifest();
    INSERT INTO tidemark.archives AS a (object, sha256, bytes, campaigns, events, removed, removed_hash, first_position,
        last_position, last_recorded, event_types, members, actor, reason, lane, changed_at)
    VALUES (p_object, p_sha256, p_bytes, cardinality(free), total.events, gone.n, gone.hash, total.first,
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
-- +goose StatementEnd

-- unlike says how lines differ from what was archived of a campaign, whose stub has the mark.
-- +goose StatementBegin
CREATE FUNCTION tidemark.unlike(p_campaign_id text, p_lines text, p_mark jsonb) RETURNS text
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
-- +goose StatementEnd

-- put_back writes lines of an archive in the place of campaigns' stubs.
-- +goose StatementBegin
CREATE FUNCTION tidemark.put_back(p_campaign_ids text[], p_lines text[]) RETURNS void
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
-- +goose StatementEnd

-- taken says which position of a campaign's lines belongs to another event, or returns NULL.
-- +goose StatementBegin
CREATE FUNCTION tidemark.taken(p_campaign_id text, p_lines text) RETURNS text
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
-- +goose StatementEnd

-- restore puts the events of campaigns back in the place of their stubs. p_lines are the lines of each
-- campaign, which must have the hash that archive has computed. It returns the campaigns that it leaves, with
-- the reason: in a copy whose sequence was behind, another event may have a position of theirs. With p_keep it
-- serves requests, and not_archivable keeps their campaigns for so long.
-- +goose StatementBegin
CREATE FUNCTION tidemark.restore(p_campaign_ids text[], p_lines text[], p_keep interval DEFAULT NULL)
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
    -- A campaign that an append has asked for has a row of its own.
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
        FROM unnest(ids, marks) AS u (id, mark) LEFT JOIN tidemark.restore_requests r ON r.campaign_id = u.id
            AND r.kept_until IS NULL AND p_keep IS NOT NULL
        GROUP BY r.asked_by, r.asked_at, r.campaign_id
    ) AS r;
    UPDATE tidemark.restore_requests r SET error = '', kept_until = clock_timestamp() + coalesce(p_keep, '0')
    FROM unnest(ids) AS u (id) WHERE r.campaign_id = u.id AND r.kept_until IS NULL;
    INSERT INTO tidemark.retention_due (policy, campaign_id, due_at)
    SELECT t.policy, u.id, clock_timestamp() FROM unnest(ids) AS u (id) CROSS JOIN tidemark.retention t
    ORDER BY t.policy, u.id ON CONFLICT DO NOTHING;
END
$$;
-- +goose StatementEnd

-- ask_restore asks workers to bring an archived campaign back, and returns whether it is archived: if not,
-- append again. Call it after an append has failed with TM014, in another transaction, as often as you
-- like. It waits for an open transaction that asks for the same campaign: for 10 s, or for the session's
-- lock_timeout. It raises TM015 if no worker has served requests for 2 minutes, or 1,000 of them are open: a
-- few more if calls run at once.
-- +goose StatementBegin
CREATE FUNCTION tidemark.ask_restore(p_campaign_id text) RETURNS boolean
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
-- +goose StatementEnd

REVOKE ALL ON FUNCTION tidemark.begin_manifest, tidemark.archive_lines, tidemark.not_archivable,
    tidemark.require_batch, tidemark.archive, tidemark.unlike, tidemark.put_back, tidemark.taken, tidemark.restore
    FROM PUBLIC;

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP FUNCTION tidemark.ask_restore;
DROP FUNCTION tidemark.restore;
DROP FUNCTION tidemark.taken;
DROP FUNCTION tidemark.put_back;
DROP FUNCTION tidemark.unlike;
DROP FUNCTION tidemark.archive;
DROP FUNCTION tidemark.require_batch;
DROP FUNCTION tidemark.not_archivable;
DROP FUNCTION tidemark.archive_lines;
DROP FUNCTION tidemark.archived_after;
DROP FUNCTION tidemark.is_archived;
DROP FUNCTION tidemark.begin_manifest;
DROP FUNCTION tidemark.archive_mark;
DROP FUNCTION tidemark.require_positions;
DROP TABLE tidemark.restore_requests;
DROP TABLE tidemark.retention_due;
DROP TABLE tidemark.retention;
DROP TABLE tidemark.archives;
