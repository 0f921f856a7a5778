-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- One row for each pair of a topic and a publisher. All events of the topic up to position are published, or stand in parked. A pair is leased as campaigns are:
-- owner and generation are in the WHERE of every write of its holder; whoever else moves position raises the generation. Rows are few and written all the time, so
-- pages have room to keep a row's versions together (HOT).
CREATE TABLE tidemark.publications (
    topic             text COLLATE "C" NOT NULL,
    publisher         text COLLATE "C" NOT NULL,
    position          bigint           NOT NULL,
    status            text COLLATE "C" NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'PAUSED', 'FAILED')),
    reason            text,                                       -- why it is paused or has failed
    actor             text COLLATE "C",                           -- who paused it
    paused_until      timestamptz      NOT NULL DEFAULT 'infinity', -- when a pause ends by itself
    error_count       integer          NOT NULL DEFAULT 0,        -- failures in a row
    last_error        text,
    last_error_at     timestamptz,
    next_attempt_at   timestamptz      NOT NULL DEFAULT '-infinity', -- end of the back-off
    published_count   bigint           NOT NULL DEFAULT 0,
    last_published_at timestamptz,
    owner             text COLLATE "C" NOT NULL DEFAULT '',
    generation        bigint           NOT NULL DEFAULT 0,
    expires_at        timestamptz      NOT NULL DEFAULT '-infinity',
    created_at        timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (topic, publisher)
) WITH (
    fillfactor = 25,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);

-- The processes that publish, and which pairs their configuration knows, as topic and publisher in turn.
CREATE TABLE tidemark.relays (
    owner      text COLLATE "C" PRIMARY KEY,
    host       text             NOT NULL,
    pid        integer          NOT NULL,
    knows      text[]           NOT NULL,
    started_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    seen_at    timestamptz      NOT NULL,
    expires_at timestamptz      NOT NULL,
    pairs_held integer          NOT NULL
) WITH (fillfactor = 50);

-- What was refused. A row that holds keeps back its campaign from event seq on (docs/adr/0004). 'retrying' is tried again at next_attempt_at, 'parked' waits for an operator,
-- 'draining' has nothing against it and is on its way. Names of an error are about event seq; position is its, or where the campaign was left.
CREATE TABLE tidemark.parked (
    topic           text COLLATE "C" NOT NULL,
    publisher       text COLLATE "C" NOT NULL,
    campaign_id     text COLLATE "C" NOT NULL,
    seq             bigint           NOT NULL,
    holds           boolean          NOT NULL,
    position        bigint           NOT NULL,
    event_id        uuid,
    event_type      text COLLATE "C",
    status          text COLLATE "C" NOT NULL CHECK (status IN ('retrying', 'parked', 'draining')),
    attempt_count   integer          NOT NULL DEFAULT 0,
    next_attempt_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    error_message   text,
    first_failed_at timestamptz,
    last_failed_at  timestamptz,
    PRIMARY KEY (topic, publisher, campaign_id, seq, holds)
);

CREATE UNIQUE INDEX parked_holds_key ON tidemark.parked (topic, publisher, campaign_id) WHERE holds;
CREATE INDEX parked_due_idx ON tidemark.parked (topic, publisher, next_attempt_at) WHERE status IN ('retrying', 'draining');

-- What operators did, written in the transaction that did it.
CREATE TABLE tidemark.operator_log (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor       text COLLATE "C" NOT NULL,
    act         text COLLATE "C" NOT NULL,
    reason      text,
    topic       text COLLATE "C",
    publisher   text COLLATE "C",
    campaign_id text COLLATE "C",
    seq         bigint,
    detail      jsonb
);

CREATE INDEX operator_log_at_idx ON tidemark.operator_log (at);

-- claim_publications leases those of the pairs that are free and active, or whose pause is over. Where the server's clock has gone back, a lease of the old time is free as soon as its owner does not live: nobody leases for
-- so long. Rows are locked in the order of the key; one that somebody is writing is passed by.
-- +goose StatementBegin
CREATE FUNCTION tidemark.claim_publications(p_owner text, p_topics text[], p_publishers text[], p_ttl interval)
    RETURNS TABLE (topic text, publisher text, generation bigint, "position" bigint, error_count integer, wait interval)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    WITH free AS MATERIALIZED (
        SELECT f.place
        FROM (SELECT * FROM unnest(p_topics, p_publishers) AS u (topic, publisher) ORDER BY 1, 2) u CROSS JOIN LATERAL (
            SELECT p.ctid AS place FROM tidemark.publications p
            WHERE p.topic = u.topic AND p.publisher = u.publisher AND (p.expires_at <= at
                    OR p.expires_at > at + p_ttl + interval '1 s' AND NOT EXISTS (
                        SELECT FROM tidemark.relays r WHERE r.owner = p.owner AND r.seen_at <= at + interval '1 s' AND r.expires_at > at))
                AND (p.status = 'ACTIVE' OR p.status = 'PAUSED' AND p.paused_until <= at)
            FOR UPDATE SKIP LOCKED
        ) f
    )
    UPDATE tidemark.publications p SET owner = p_owner, generation = p.generation + 1, expires_at = at + p_ttl, status = 'ACTIVE',
        reason = NULL, actor = NULL, paused_until = 'infinity'
    FROM free f WHERE p.ctid = f.place
    RETURNING p.topic, p.publisher, p.generation, p.position, p.error_count, CASE WHEN p.next_attempt_at > at THEN p.next_attempt_at - at ELSE interval '0' END;
END
$$;
-- +goose StatementEnd

-- move_publications moves the positions of pairs that are still the caller's, prolongs their leases or gives them back, and answers which they are. Positions never
-- go back. Locks come first, in the order of the key, and the writing in a statement of its own whose snapshot has what was locked (as in advance).
-- p_published counts events sent; a pair that sent any has no error any more.
-- +goose StatementBegin
CREATE FUNCTION tidemark.move_publications(p_owner text, p_topics text[], p_publishers text[], p_generations bigint[], p_positions bigint[], p_published bigint[],
        p_release boolean[], p_ttl interval) RETURNS TABLE (topic text, publisher text)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    places tid[];
    positions bigint[];
    sent bigint[];
    releases boolean[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true); -- what a crash of the server forgets is sent again
    SELECT array_agg(h.place), array_agg(u.position), array_agg(u.published), array_agg(u.release) INTO places, positions, sent, releases
    FROM (
        SELECT * FROM unnest(p_topics, p_publishers, p_generations, p_positions, p_published, p_release)
            AS u (topic, publisher, generation, position, published, release) ORDER BY 1, 2
    ) u
    CROSS JOIN LATERAL (
        SELECT p.ctid AS place FROM tidemark.publications p
        WHERE p.topic = u.topic AND p.publisher = u.publisher AND p.generation = u.generation AND p.owner = p_owner
        FOR UPDATE
    ) h;
    RETURN QUERY
    UPDATE tidemark.publications p
    SET position = greatest(p.position, m.position), published_count = p.published_count + m.published,
        last_published_at = CASE WHEN m.published > 0 THEN clock_timestamp() ELSE p.last_published_at END,
        error_count = CASE WHEN m.published > 0 THEN 0 ELSE p.error_count END,
        next_attempt_at = CASE WHEN m.published > 0 THEN '-infinity' ELSE p.next_attempt_at END,
        expires_at = CASE WHEN m.release THEN '-infinity' ELSE clock_timestamp() + p_ttl END
    FROM unnest(places, positions, sent, releases) AS m (place, position, published, release)
    WHERE p.ctid = m.place
    RETURNING p.topic, p.publisher;
END
$$;
-- +goose StatementEnd

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP FUNCTION tidemark.move_publications;
DROP FUNCTION tidemark.claim_publications;
DROP TABLE tidemark.operator_log;
DROP TABLE tidemark.parked;
DROP TABLE tidemark.relays;
DROP TABLE tidemark.publications;
