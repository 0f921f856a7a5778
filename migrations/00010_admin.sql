-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- Tokens for the admin listener. A token is random, and only its SHA-256 is stored. A name is free
-- again once its token is revoked. Roles write here and look up hashes only through the functions
-- below (migrations/roles/roles.sql).
CREATE TABLE tidemark.tokens (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text COLLATE "C" NOT NULL,
    role         text COLLATE "C" NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    hash         bytea            NOT NULL UNIQUE,
    created_at   timestamptz      NOT NULL DEFAULT clock_timestamp(),
    created_by   text COLLATE "C" NOT NULL,
    expires_at   timestamptz      NOT NULL DEFAULT clock_timestamp() + interval '90 days',
    last_used_at timestamptz,
    revoked_at   timestamptz,
    revoked_by   text COLLATE "C"
);
COMMENT ON TABLE tidemark.tokens IS 'Tokens for the admin listener. Roles write here only through functions.';
COMMENT ON COLUMN tidemark.tokens.id IS 'number of the token';
COMMENT ON COLUMN tidemark.tokens.name IS 'name, free again after the revocation';
COMMENT ON COLUMN tidemark.tokens.role IS 'viewer, operator or admin';
COMMENT ON COLUMN tidemark.tokens.hash IS 'SHA-256 of the token';
COMMENT ON COLUMN tidemark.tokens.created_at IS 'time of its creation';
COMMENT ON COLUMN tidemark.tokens.created_by IS 'operator who created it';
COMMENT ON COLUMN tidemark.tokens.expires_at IS 'expiry';
COMMENT ON COLUMN tidemark.tokens.last_used_at IS 'last use, to within a minute';
COMMENT ON COLUMN tidemark.tokens.revoked_at IS 'time of the revocation';
COMMENT ON COLUMN tidemark.tokens.revoked_by IS 'operator who revoked it';

CREATE UNIQUE INDEX tokens_name_key ON tidemark.tokens (name) WHERE revoked_at IS NULL;

-- Browser sessions that began with a token. The hash is the SHA-256 of the cookie. A session ends
-- with its token.
CREATE TABLE tidemark.sessions (
    hash       bytea       PRIMARY KEY,
    token_id   bigint      NOT NULL REFERENCES tidemark.tokens ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL
);
COMMENT ON TABLE tidemark.sessions IS 'Browser sessions that began with a token.';
COMMENT ON COLUMN tidemark.sessions.hash IS 'SHA-256 of the cookie';
COMMENT ON COLUMN tidemark.sessions.token_id IS 'token. The session ends with it';
COMMENT ON COLUMN tidemark.sessions.created_at IS 'time of the login';
COMMENT ON COLUMN tidemark.sessions.expires_at IS 'expiry';

CREATE INDEX sessions_token_idx ON tidemark.sessions (token_id);
CREATE INDEX sessions_expires_idx ON tidemark.sessions (expires_at);

-- create_token creates a token that expires after p_lifetime (NULL: never) and returns its id, or
-- NULL if the name is taken. p_actor and the arguments after it identify the caller for the
-- operators' log.
-- +goose StatementBegin
CREATE FUNCTION tidemark.create_token(p_name text, p_role text, p_hash bytea, p_lifetime interval, p_actor text,
        p_reason text, p_way text, p_token_id bigint, p_address text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    made tidemark.tokens;
BEGIN
    IF p_name IS NULL OR p_name !~ '^[^[:space:][:cntrl:]:]+$' OR octet_length(p_name) > 128 THEN
        RAISE EXCEPTION 'the token''s name is %', quote_nullable(p_name)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use 1 to 128 bytes without spaces and colons';
    ELSIF p_role IS NULL OR p_role NOT IN ('viewer', 'operator', 'admin') THEN
        RAISE EXCEPTION 'the token''s role is %', quote_nullable(p_role)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use viewer, operator or admin';
    ELSIF p_hash IS NULL OR octet_length(p_hash) <> 32 THEN
        RAISE EXCEPTION 'the token''s hash has % bytes', octet_length(p_hash)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use its SHA-256: 32 bytes';
    ELSIF p_lifetime <= interval '0' THEN
        RAISE EXCEPTION 'the token would expire after %', p_lifetime
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use a time above 0, or NULL for never';
    ELSIF coalesce(p_actor, '') = '' THEN
        RAISE EXCEPTION 'the actor is missing'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'say who does it: it is written to the log';
    END IF;
    INSERT INTO tidemark.tokens AS t (name, role, hash, created_by, expires_at)
    VALUES (p_name, p_role, p_hash, p_actor, coalesce(clock_timestamp() + p_lifetime, 'infinity'))
    ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING RETURNING t.* INTO made;
    IF made.id IS NOT NULL THEN
        PERFORM tidemark.log_act(p_actor, 'token_created', p_reason, '', '', '', 0, jsonb_build_object('request',
            jsonb_build_object('name', p_name, 'role', p_role, 'expires_at',
                to_char(nullif(made.expires_at, 'infinity') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))),
            p_way, p_token_id, p_address);
    END IF;
    RETURN made.id;
END
$$;
-- +goose StatementEnd

-- revoke_token revokes the token with that name, and reports whether there was one. The other
-- arguments are as for create_token.
-- +goose StatementBegin
CREATE FUNCTION tidemark.revoke_token(p_name text, p_actor text, p_reason text, p_way text, p_token_id bigint,
        p_address text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF coalesce(p_actor, '') = '' THEN
        RAISE EXCEPTION 'the actor is missing'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'say who does it: it is written to the log';
    END IF;
    UPDATE tidemark.tokens t SET revoked_at = clock_timestamp(), revoked_by = p_actor
    WHERE t.name = p_name AND t.revoked_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM tidemark.log_act(p_actor, 'token_revoked', p_reason, '', '', '', 0,
        jsonb_build_object('request', jsonb_build_object('name', p_name)), p_way, p_token_id, p_address);
    RETURN true;
END
$$;
-- +goose StatementEnd

-- use_token returns the valid token with that hash. It records the use at most once a minute.
-- +goose StatementBegin
CREATE FUNCTION tidemark.use_token(p_hash bytea) RETURNS TABLE (id bigint, name text, role text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    used timestamptz;
BEGIN
    SELECT t.id, t.name, t.role, t.last_used_at INTO use_token.id, use_token.name, use_token.role, used
    FROM tidemark.tokens t
    WHERE t.hash = p_hash AND t.revoked_at IS NULL AND t.expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF used IS NULL OR used < clock_timestamp() - interval '1 minute' THEN
        UPDATE tidemark.tokens t SET last_used_at = clock_timestamp() WHERE t.id = use_token.id;
    END IF;
    RETURN NEXT;
END
$$;
-- +goose StatementEnd

-- find_session returns the token of the valid session with that hash.
-- +goose StatementBegin
CREATE FUNCTION tidemark.find_session(p_hash bytea) RETURNS TABLE (id bigint, name text, role text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT t.id, t.name, t.role FROM tidemark.sessions s JOIN tidemark.tokens t ON t.id = s.token_id
    WHERE s.hash = p_hash AND s.expires_at > clock_timestamp()
        AND t.revoked_at IS NULL AND t.expires_at > clock_timestamp();
END
$$;
-- +goose StatementEnd

-- begin_session creates a session of p_lifetime for the token with that hash, and reports whether
-- the token is valid. It also deletes up to 100 expired sessions.
-- +goose StatementBegin
CREATE FUNCTION tidemark.begin_session(p_token bytea, p_hash bytea, p_lifetime interval) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_hash IS NULL OR octet_length(p_hash) <> 32 OR p_lifetime IS NULL
        OR p_lifetime NOT BETWEEN interval '0' AND interval '30 days' THEN
        RAISE EXCEPTION 'the session has a hash of % bytes and lasts %', octet_length(p_hash), p_lifetime
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use a SHA-256 and at most 30 days';
    END IF;
    DELETE FROM tidemark.sessions WHERE hash = ANY (ARRAY(SELECT s.hash FROM tidemark.sessions s
        WHERE s.expires_at < clock_timestamp() ORDER BY s.expires_at LIMIT 100 FOR UPDATE SKIP LOCKED));
    INSERT INTO tidemark.sessions (hash, token_id, expires_at)
    SELECT p_hash, t.id, clock_timestamp() + p_lifetime FROM tidemark.tokens t
    WHERE t.hash = p_token AND t.revoked_at IS NULL AND t.expires_at > clock_timestamp();
    RETURN FOUND;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION tidemark.end_session(p_hash bytea) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM tidemark.sessions WHERE hash = p_hash;
END
$$;
-- +goose StatementEnd

-- valid_secrets returns the SHA-256 of the hash of each valid token and of up to 100,000 unexpired
-- sessions: enough to recognise a secret, too little to begin a session.
-- +goose StatementBegin
CREATE FUNCTION tidemark.valid_secrets() RETURNS SETOF bytea
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    SELECT sha256(t.hash) FROM tidemark.tokens t WHERE t.revoked_at IS NULL AND t.expires_at > clock_timestamp()
    UNION ALL (SELECT sha256(s.hash) FROM tidemark.sessions s WHERE s.expires_at > clock_timestamp() LIMIT 100000);
END
$$;
-- +goose StatementEnd

-- holding_secrets returns the hashes in p_hashes that belong to a valid token or to a session of
-- one.
-- +goose StatementBegin
CREATE FUNCTION tidemark.holding_secrets(p_hashes bytea[]) RETURNS SETOF bytea
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    SELECT h FROM unnest(p_hashes) h
    WHERE EXISTS (SELECT FROM tidemark.tokens t
            WHERE t.hash = h AND t.revoked_at IS NULL AND t.expires_at > clock_timestamp())
        OR EXISTS (SELECT FROM tidemark.find_session(h));
END
$$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION tidemark.create_token, tidemark.revoke_token, tidemark.use_token, tidemark.find_session,
    tidemark.begin_session, tidemark.end_session, tidemark.valid_secrets, tidemark.holding_secrets FROM PUBLIC;

-- Acts with an idempotency key, and their results: a repeated request gets the same result and does
-- nothing. Rows are written in the transaction of the act and pruned by age.
CREATE TABLE tidemark.act_keys (
    actor   text COLLATE "C" NOT NULL,
    key     text COLLATE "C" NOT NULL,
    act     text COLLATE "C" NOT NULL,
    request bytea            NOT NULL,
    result  jsonb,
    at      timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (actor, key)
);
COMMENT ON TABLE tidemark.act_keys IS 'Idempotency keys of acts, with the result to repeat. Pruned by age.';
COMMENT ON COLUMN tidemark.act_keys.actor IS 'id of the token, or a name and its way';
COMMENT ON COLUMN tidemark.act_keys.key IS 'idempotency key';
COMMENT ON COLUMN tidemark.act_keys.act IS 'the act';
COMMENT ON COLUMN tidemark.act_keys.request IS 'keyed hash of the request: tidemark.request_hash';
COMMENT ON COLUMN tidemark.act_keys.result IS 'result';
COMMENT ON COLUMN tidemark.act_keys.at IS 'time';

CREATE INDEX act_keys_at_idx ON tidemark.act_keys (at);

-- Acts that take longer than a request. Workers do them in batches under a lease that each batch
-- renews. Counters are written with the batch that they count.
CREATE TABLE tidemark.operations (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind       text COLLATE "C" NOT NULL,
    request    jsonb            NOT NULL,
    actor      text COLLATE "C" NOT NULL,
    reason     text,
    state      text COLLATE "C" NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'aborted', 'failed')),
    total      bigint           NOT NULL DEFAULT 0,
    done       bigint           NOT NULL DEFAULT 0,
    skipped    bigint           NOT NULL DEFAULT 0,
    failed     bigint           NOT NULL DEFAULT 0,
    progress   jsonb,
    error      text,
    created_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    ended_at   timestamptz,
    ended_by   text COLLATE "C",
    owner      text COLLATE "C" NOT NULL DEFAULT '',
    expires_at timestamptz      NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);
COMMENT ON TABLE tidemark.operations IS 'Acts that workers do in batches. Pruned 90 days after their end.';
COMMENT ON COLUMN tidemark.operations.id IS 'number of the operation';
COMMENT ON COLUMN tidemark.operations.kind IS 'the act';
COMMENT ON COLUMN tidemark.operations.request IS 'parameters';
COMMENT ON COLUMN tidemark.operations.actor IS 'operator';
COMMENT ON COLUMN tidemark.operations.reason IS 'reason of the operator';
COMMENT ON COLUMN tidemark.operations.state IS 'running, done, aborted or failed';
COMMENT ON COLUMN tidemark.operations.total IS 'number of items';
COMMENT ON COLUMN tidemark.operations.done IS 'items that are done';
COMMENT ON COLUMN tidemark.operations.skipped IS 'items that had changed';
COMMENT ON COLUMN tidemark.operations.failed IS 'items that failed';
COMMENT ON COLUMN tidemark.operations.progress IS 'where the next batch begins';
COMMENT ON COLUMN tidemark.operations.error IS 'error that ended it';
COMMENT ON COLUMN tidemark.operations.created_at IS 'time of the act';
COMMENT ON COLUMN tidemark.operations.updated_at IS 'last batch';
COMMENT ON COLUMN tidemark.operations.ended_at IS 'time of its end';
COMMENT ON COLUMN tidemark.operations.ended_by IS 'operator who aborted it';
COMMENT ON COLUMN tidemark.operations.owner IS 'worker that runs it';
COMMENT ON COLUMN tidemark.operations.expires_at IS 'end of that worker''s lease';

CREATE INDEX operations_running_idx ON tidemark.operations (id) WHERE state = 'running';

-- Items of an operation, fixed when the operation was confirmed.
CREATE TABLE tidemark.operation_items (
    operation_id bigint           NOT NULL REFERENCES tidemark.operations ON DELETE CASCADE,
    ord          bigint           NOT NULL,
    campaign_id  text COLLATE "C" NOT NULL,
    subject      text COLLATE "C" NOT NULL,
    seq          bigint           NOT NULL,
    outcome      text COLLATE "C" CHECK (outcome IN ('done', 'skipped', 'failed')),
    detail       text,
    PRIMARY KEY (operation_id, ord)
) WITH (fillfactor = 80);
COMMENT ON TABLE tidemark.operation_items IS 'Items of operations, fixed at the confirmation.';
COMMENT ON COLUMN tidemark.operation_items.operation_id IS 'operation';
COMMENT ON COLUMN tidemark.operation_items.ord IS 'place of the item in the operation';
COMMENT ON COLUMN tidemark.operation_items.campaign_id IS 'campaign';
COMMENT ON COLUMN tidemark.operation_items.subject IS 'projection, or topic/publisher';
COMMENT ON COLUMN tidemark.operation_items.seq IS 'event';
COMMENT ON COLUMN tidemark.operation_items.outcome IS 'done, skipped or failed, NULL while it is open';
COMMENT ON COLUMN tidemark.operation_items.detail IS 'error, or a difference';

CREATE INDEX operation_items_left_idx ON tidemark.operation_items (operation_id, ord) WHERE outcome IS NULL;

ALTER TABLE tidemark.workers ADD COLUMN drained_by text COLLATE "C";
COMMENT ON COLUMN tidemark.workers.drained_by IS 'operator who drained it, NULL while it takes work';

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
ALTER TABLE tidemark.workers DROP COLUMN drained_by;
DROP TABLE tidemark.operation_items;
DROP TABLE tidemark.operations;
DROP TABLE tidemark.act_keys;
DROP FUNCTION tidemark.holding_secrets;
DROP FUNCTION tidemark.valid_secrets;
DROP FUNCTION tidemark.end_session;
DROP FUNCTION tidemark.begin_session;
DROP FUNCTION tidemark.find_session;
DROP FUNCTION tidemark.use_token;
DROP FUNCTION tidemark.revoke_token;
DROP FUNCTION tidemark.create_token;
DROP TABLE tidemark.sessions;
DROP TABLE tidemark.tokens;
