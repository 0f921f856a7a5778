-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- Acts of operators, written by log_act in the transaction of the act. At commit the trigger
-- operator_log_link numbers rows without gaps (link) and chains their hashes, so that a missing or
-- changed row shows.
CREATE TABLE tidemark.operator_log (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor         text COLLATE "C" NOT NULL,
    act           text COLLATE "C" NOT NULL,
    reason        text,
    topic         text COLLATE "C",
    publisher     text COLLATE "C",
    campaign_id   text COLLATE "C",
    seq           bigint,
    detail        jsonb,
    way           text COLLATE "C" CHECK (way IN ('cli', 'api', 'page')),
    token_id      bigint,
    address       text COLLATE "C",
    database_user text COLLATE "C" NOT NULL DEFAULT session_user,
    link          bigint UNIQUE,
    hash          bytea
);
COMMENT ON TABLE tidemark.operator_log IS
    'Acts of operators. Append-only, written by tidemark.log_act, with hashes that form a chain.';
COMMENT ON COLUMN tidemark.operator_log.detail IS 'parameters and outcome';
COMMENT ON COLUMN tidemark.operator_log.way IS 'cli, api or page, NULL for a program';
COMMENT ON COLUMN tidemark.operator_log.token_id IS 'token of the API or the pages';
COMMENT ON COLUMN tidemark.operator_log.address IS 'address of the client';
COMMENT ON COLUMN tidemark.operator_log.database_user IS 'database login, which the caller cannot choose';
COMMENT ON COLUMN tidemark.operator_log.link IS 'number in the chain, without gaps';
COMMENT ON COLUMN tidemark.operator_log.hash IS 'SHA-256 of the previous hash and this row';

CREATE INDEX operator_log_at_idx ON tidemark.operator_log (at);

-- One row: the newest link and the last pruned link. Rows younger than keep are not pruned.
CREATE TABLE tidemark.operator_log_head (
    one         boolean  PRIMARY KEY DEFAULT true CHECK (one),
    link        bigint   NOT NULL DEFAULT 0,
    hash        bytea    NOT NULL DEFAULT '',
    pruned      bigint   NOT NULL DEFAULT 0,
    pruned_hash bytea    NOT NULL DEFAULT '',
    keep        interval NOT NULL DEFAULT '1 day'
);
COMMENT ON TABLE tidemark.operator_log_head IS 'Newest and last pruned link of the chain of operator_log: one row.';
COMMENT ON COLUMN tidemark.operator_log_head.one IS 'always true, so that there is one row';
COMMENT ON COLUMN tidemark.operator_log_head.link IS 'newest link';
COMMENT ON COLUMN tidemark.operator_log_head.pruned IS 'last link that was pruned';
COMMENT ON COLUMN tidemark.operator_log_head.keep IS 'rows younger than this are never pruned';
INSERT INTO tidemark.operator_log_head DEFAULT VALUES;

-- Tokens for the admin listener. A token is random, and only its SHA-256 is stored. A name is free
-- again once its token is revoked. Roles write here and look up hashes only through functions
-- (migrations/functions/tokens.sql, migrations/roles/roles.sql).
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
COMMENT ON COLUMN tidemark.tokens.name IS 'name, free again after the revocation';
COMMENT ON COLUMN tidemark.tokens.role IS 'viewer, operator or admin';
COMMENT ON COLUMN tidemark.tokens.hash IS 'SHA-256 of the token';
COMMENT ON COLUMN tidemark.tokens.last_used_at IS 'last use, to within a minute';

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

CREATE INDEX sessions_token_idx ON tidemark.sessions (token_id);
CREATE INDEX sessions_expires_idx ON tidemark.sessions (expires_at);

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
COMMENT ON COLUMN tidemark.act_keys.request IS 'keyed hash of the request: tidemark.request_hash';

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
COMMENT ON COLUMN tidemark.operations.kind IS 'the act';
COMMENT ON COLUMN tidemark.operations.request IS 'parameters';
COMMENT ON COLUMN tidemark.operations.state IS 'running, done, aborted or failed';
COMMENT ON COLUMN tidemark.operations.total IS 'number of items';
COMMENT ON COLUMN tidemark.operations.done IS 'items that are done';
COMMENT ON COLUMN tidemark.operations.skipped IS 'items that had changed';
COMMENT ON COLUMN tidemark.operations.failed IS 'items that failed';
COMMENT ON COLUMN tidemark.operations.progress IS 'where the next batch begins';
COMMENT ON COLUMN tidemark.operations.error IS 'error that ended it';
COMMENT ON COLUMN tidemark.operations.updated_at IS 'last batch';
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
COMMENT ON COLUMN tidemark.operation_items.ord IS 'place of the item in the operation';
COMMENT ON COLUMN tidemark.operation_items.subject IS 'projection, or topic/publisher';
COMMENT ON COLUMN tidemark.operation_items.outcome IS 'done, skipped or failed, NULL while it is open';
COMMENT ON COLUMN tidemark.operation_items.detail IS 'error, or a difference';

CREATE INDEX operation_items_left_idx ON tidemark.operation_items (operation_id, ord) WHERE outcome IS NULL;

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP TABLE tidemark.operation_items;
DROP TABLE tidemark.operations;
DROP TABLE tidemark.act_keys;
DROP TABLE tidemark.sessions;
DROP TABLE tidemark.tokens;
DROP TABLE tidemark.operator_log_head;
DROP TABLE tidemark.operator_log;
