-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- A 'joining' projection is not yet in step with its group: every campaign that moves gets a row in
-- deferred for it. Once the campaigns that do not move have rows too it becomes 'active'. From then
-- on it is in step wherever deferred has no row.
-- During a rebuild NAME~next stands for the tables that will replace those of NAME. It is
-- 'requested' until a worker that has the code creates the tables, then 'copying', and 'copied'
-- until the campaigns that were not copied have rows. Afterwards NAME~previous stands for the
-- replaced tables (docs/guides/rebuild.md).
CREATE TABLE tidemark.projections (
    name           text COLLATE "C" PRIMARY KEY,
    consumer_group text COLLATE "C" NOT NULL,
    version        integer          NOT NULL,
    schema_name    text             NOT NULL,
    table_names    text[]           NOT NULL,
    state          text             NOT NULL CHECK (state IN ('requested', 'copying', 'copied', 'joining', 'active')),
    own_reset      boolean          NOT NULL DEFAULT false,
    own_objects    text[]           NOT NULL DEFAULT '{}',
    declined       integer          NOT NULL DEFAULT 0,
    kept_until     timestamptz,
    resolved_ahead boolean          NOT NULL DEFAULT false,
    registered_at  timestamptz      NOT NULL DEFAULT clock_timestamp(),
    scope          text COLLATE "C" NOT NULL DEFAULT 'campaign' CHECK (scope IN ('campaign', 'journal')),
    written_by     text COLLATE "C" NOT NULL DEFAULT current_user,
    statements     text COLLATE "C" NOT NULL DEFAULT '',
    other          text COLLATE "C" NOT NULL DEFAULT '',
    other_since    timestamptz,
    takes          jsonb
);
COMMENT ON TABLE tidemark.projections IS
    'Registry of projections. During a rebuild NAME~next and NAME~previous are rows of their own (docs/guides/rebuild.md).';
COMMENT ON COLUMN tidemark.projections.name IS 'name. NAME~next and NAME~previous are the other sets of tables';
COMMENT ON COLUMN tidemark.projections.consumer_group IS 'group that applies it';
COMMENT ON COLUMN tidemark.projections.version IS 'version of the code that writes the tables';
COMMENT ON COLUMN tidemark.projections.schema_name IS 'schema of the tables';
COMMENT ON COLUMN tidemark.projections.table_names IS 'tables in order of creation';
COMMENT ON COLUMN tidemark.projections.state IS
    'requested, copying, copied, joining, then active: in step wherever deferred has no row';
COMMENT ON COLUMN tidemark.projections.own_reset IS 'true if its code deletes a campaign''s rows';
COMMENT ON COLUMN tidemark.projections.own_objects IS
    'indexes, constraints and other objects of its own DDL. Others belong to users';
COMMENT ON COLUMN tidemark.projections.declined IS 'no rebuild to this version or a lower one begins by itself';
COMMENT ON COLUMN tidemark.projections.kept_until IS 'time at which the tables of NAME~previous may be dropped';
COMMENT ON COLUMN tidemark.projections.resolved_ahead IS
    'true if a resolved event was ahead of its group at the registration';
COMMENT ON COLUMN tidemark.projections.registered_at IS 'time of the registration';
COMMENT ON COLUMN tidemark.projections.scope IS
    'campaign: applied campaign by campaign. journal: across campaigns, by the places in readers';
COMMENT ON COLUMN tidemark.projections.written_by IS
    'role that wrote the names of schema and tables: what it may not drop is not dropped for the row';
COMMENT ON COLUMN tidemark.projections.statements IS
    'hash of the statements of the SQL file that made the tables, empty for a projection in Go';
COMMENT ON COLUMN tidemark.projections.other IS 'hash of another file of this version that a worker had, empty: none';
COMMENT ON COLUMN tidemark.projections.other_since IS
    'time at which a worker first had that other file: ten minutes later none registers it';
COMMENT ON COLUMN tidemark.projections.takes IS
    'events that its code takes, as tidemark.reader_lag reads it: types with their aliases, and intents. NULL: all';

-- sign_projection writes who names the tables. Others drop what the row names, some with more rights.
-- +goose StatementBegin
CREATE FUNCTION tidemark.sign_projection() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    NEW.written_by := current_user;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER projections_sign BEFORE INSERT OR UPDATE OF name, schema_name, table_names, written_by
    ON tidemark.projections FOR EACH ROW EXECUTE FUNCTION tidemark.sign_projection();

-- Options of a rebuild, as given when it began. The row is deleted together with NAME~next.
CREATE TABLE tidemark.rebuilds (
    projection    text COLLATE "C" PRIMARY KEY,
    max_share     float8           NOT NULL,
    allow_failed  bigint           NOT NULL,
    keep          interval         NOT NULL,
    verify_sample integer          NOT NULL,
    verify_ignore text[]           NOT NULL,
    version       integer          NOT NULL DEFAULT 0,
    actor         text COLLATE "C" NOT NULL,
    reason        text             NOT NULL,
    campaigns     bigint,
    events        bigint,
    active_at     timestamptz,
    copied_to     text COLLATE "C" NOT NULL DEFAULT '',
    refusal       text,
    refused_at    timestamptz,
    started_at    timestamptz      NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE tidemark.rebuilds IS 'Running rebuilds with their options. The row is deleted with NAME~next.';
COMMENT ON COLUMN tidemark.rebuilds.projection IS 'name of the projection';
COMMENT ON COLUMN tidemark.rebuilds.max_share IS 'maximum share of the time of a worker''s goroutines';
COMMENT ON COLUMN tidemark.rebuilds.allow_failed IS 'number of campaigns that may be failed or dead at the swap';
COMMENT ON COLUMN tidemark.rebuilds.keep IS 'time to keep the replaced tables';
COMMENT ON COLUMN tidemark.rebuilds.verify_sample IS 'number of campaigns to compare with their events before the swap';
COMMENT ON COLUMN tidemark.rebuilds.verify_ignore IS 'columns that the comparison ignores';
COMMENT ON COLUMN tidemark.rebuilds.version IS 'version that was requested, 0: the highest that a worker has';
COMMENT ON COLUMN tidemark.rebuilds.actor IS 'operator who requested it';
COMMENT ON COLUMN tidemark.rebuilds.reason IS 'reason of the operator';
COMMENT ON COLUMN tidemark.rebuilds.campaigns IS 'campaigns to catch up with when its tables were created';
COMMENT ON COLUMN tidemark.rebuilds.events IS 'events of these campaigns';
COMMENT ON COLUMN tidemark.rebuilds.active_at IS 'time at which its tables were created';
COMMENT ON COLUMN tidemark.rebuilds.copied_to IS 'last campaign of the ranges taken by workers';
COMMENT ON COLUMN tidemark.rebuilds.refusal IS 'reason why the last swap was refused';
COMMENT ON COLUMN tidemark.rebuilds.refused_at IS 'time of that refusal';
COMMENT ON COLUMN tidemark.rebuilds.started_at IS 'time of the request';

-- Ranges of campaigns, from after first up to last, whose events a rebuild has copied up to their
-- checkpoints. Campaigns that were not copied, or have moved since, catch up on their own.
CREATE TABLE tidemark.rebuild_ranges (
    projection text COLLATE "C" NOT NULL,
    first      text COLLATE "C" NOT NULL,
    last       text COLLATE "C" NOT NULL,
    campaigns  bigint           NOT NULL,
    events     bigint           NOT NULL,
    PRIMARY KEY (projection, last)
);
COMMENT ON TABLE tidemark.rebuild_ranges IS 'Ranges of campaigns that a rebuild has copied up to their checkpoints.';
COMMENT ON COLUMN tidemark.rebuild_ranges.projection IS 'name of the projection';
COMMENT ON COLUMN tidemark.rebuild_ranges.first IS 'the range begins after this campaign';
COMMENT ON COLUMN tidemark.rebuild_ranges.last IS 'last campaign of the range';
COMMENT ON COLUMN tidemark.rebuild_ranges.campaigns IS 'campaigns in the range';
COMMENT ON COLUMN tidemark.rebuild_ranges.events IS 'events that were copied';

-- One row for each campaign in which a projection is behind its group. next_seq is the next event
-- to apply. Of a projection across campaigns, campaign_id is the key that is behind, and next_seq
-- the position of the event. A 'failed' row is retried at next_attempt_at, a 'dead' row waits for an operator
-- ('infinity'), a 'rebuilding' row catches up. With reset the campaign's rows in the projection's
-- tables are deleted before the next event is applied. The error columns describe event next_seq.
CREATE TABLE tidemark.deferred (
    campaign_id        text COLLATE "C" NOT NULL,
    projection         text COLLATE "C" NOT NULL,
    consumer_group     text COLLATE "C" NOT NULL,
    next_seq           bigint           NOT NULL,
    status             text COLLATE "C" NOT NULL CHECK (status IN ('failed', 'dead', 'rebuilding')),
    attempt_count      integer          NOT NULL DEFAULT 0,
    next_attempt_at    timestamptz      NOT NULL DEFAULT clock_timestamp(),
    reset              boolean          NOT NULL DEFAULT false,
    projection_version integer,
    event_id           uuid,
    event_type         text COLLATE "C",
    error_class        text COLLATE "C",
    error_code         text COLLATE "C",
    error_message      text,
    error_stack        text,
    fingerprint        text COLLATE "C",
    worker             text COLLATE "C",
    first_failed_at    timestamptz,
    last_failed_at     timestamptz,
    PRIMARY KEY (campaign_id, projection),
    CONSTRAINT deferred_due_check CHECK (status = 'dead' OR next_attempt_at < 'infinity')
);
COMMENT ON TABLE tidemark.deferred IS
    'Failed campaigns: one row for each campaign in which a projection is behind its group.';
COMMENT ON COLUMN tidemark.deferred.campaign_id IS 'campaign, or key of a projection across campaigns';
COMMENT ON COLUMN tidemark.deferred.projection IS 'projection that is behind';
COMMENT ON COLUMN tidemark.deferred.consumer_group IS 'its group';
COMMENT ON COLUMN tidemark.deferred.next_seq IS 'next event to apply: its seq, or its position across campaigns';
COMMENT ON COLUMN tidemark.deferred.status IS
    'failed (retried at next_attempt_at), dead (waits for an operator) or rebuilding (catches up)';
COMMENT ON COLUMN tidemark.deferred.attempt_count IS 'failed attempts at next_seq';
COMMENT ON COLUMN tidemark.deferred.next_attempt_at IS 'time of the next attempt, infinity if it waits for an operator';
COMMENT ON COLUMN tidemark.deferred.reset IS 'true if the campaign''s rows are deleted before the next event is applied';
COMMENT ON COLUMN tidemark.deferred.projection_version IS 'version that failed';
COMMENT ON COLUMN tidemark.deferred.event_id IS 'id of the failing event';
COMMENT ON COLUMN tidemark.deferred.event_type IS 'type of the failing event';
COMMENT ON COLUMN tidemark.deferred.error_class IS 'transient, permanent, lock or infrastructure';
COMMENT ON COLUMN tidemark.deferred.error_code IS 'SQLSTATE, or a code like panic, decode, deadline or crash';
COMMENT ON COLUMN tidemark.deferred.error_message IS 'message without event data';
COMMENT ON COLUMN tidemark.deferred.error_stack IS 'stack of a panic';
COMMENT ON COLUMN tidemark.deferred.fingerprint IS 'equal for failures that differ only in numbers, ids and names';
COMMENT ON COLUMN tidemark.deferred.worker IS 'worker that failed';
COMMENT ON COLUMN tidemark.deferred.first_failed_at IS 'first failure at next_seq';
COMMENT ON COLUMN tidemark.deferred.last_failed_at IS 'last failure at next_seq';

CREATE INDEX deferred_due_idx ON tidemark.deferred (consumer_group, projection, next_attempt_at, campaign_id)
    WHERE next_attempt_at < 'infinity';

-- The order in which operators list and requeue failed campaigns. Rows that are being rebuilt are
-- not in it, so inserting and updating them costs nothing here.
CREATE INDEX deferred_failures_idx ON tidemark.deferred (status, next_attempt_at, next_seq, campaign_id, projection)
    WHERE status IN ('failed', 'dead');

-- Those who wait for an event across campaigns look here, because they do not know its key.
CREATE INDEX deferred_place_idx ON tidemark.deferred (projection, next_seq) WHERE status IN ('failed', 'dead');

-- claim_deferred leases failed campaigns whose retry is due, for the projections that the caller
-- knows. It looks at the oldest p_limit of each projection, so none starves the others. It skips
-- paused projections. next_due is the earliest retry among the campaigns that are not leased.
-- +goose StatementBegin
CREATE FUNCTION tidemark.claim_deferred(p_group text, p_owner text, p_projections text[], p_limit integer,
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
            SELECT d.campaign_id, d.next_attempt_at FROM tidemark.deferred d
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
-- +goose StatementEnd

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP FUNCTION tidemark.claim_deferred;
DROP TABLE tidemark.deferred;
DROP TABLE tidemark.rebuild_ranges;
DROP TABLE tidemark.rebuilds;
DROP TABLE tidemark.projections;
DROP FUNCTION tidemark.sign_projection;
