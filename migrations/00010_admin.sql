-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- Who may use the admin listener: a random token each, of which only the SHA-256 is kept. A name is free again once its token is revoked.
CREATE TABLE tidemark.tokens (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text COLLATE "C" NOT NULL,
    role         text COLLATE "C" NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    hash         bytea            NOT NULL UNIQUE,
    created_at   timestamptz      NOT NULL DEFAULT clock_timestamp(),
    created_by   text COLLATE "C" NOT NULL,
    expires_at   timestamptz      NOT NULL DEFAULT 'infinity',
    last_used_at timestamptz,     -- to within a minute
    revoked_at   timestamptz,
    revoked_by   text COLLATE "C"
);

CREATE UNIQUE INDEX tokens_name_key ON tidemark.tokens (name) WHERE revoked_at IS NULL;

-- Browsers that have logged in with a token: the SHA-256 of their cookie. A session ends with its token.
CREATE TABLE tidemark.sessions (
    hash       bytea       PRIMARY KEY,
    token_id   bigint      NOT NULL REFERENCES tidemark.tokens ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL
);

CREATE INDEX sessions_token_idx ON tidemark.sessions (token_id);
CREATE INDEX sessions_expires_idx ON tidemark.sessions (expires_at);

-- Acts that came with an idempotency key, and what was answered: the same request again is answered the same, and does nothing. Written in the transaction of the act, pruned by age.
CREATE TABLE tidemark.act_keys (
    actor   text COLLATE "C" NOT NULL, -- the token by its id, or a name and the way it came
    key     text COLLATE "C" NOT NULL,
    act     text COLLATE "C" NOT NULL,
    request bytea            NOT NULL, -- SHA-256
    result  jsonb,
    at      timestamptz      NOT NULL DEFAULT clock_timestamp(),
    held    timestamptz, -- until then somebody does it outside the database; NULL: it is done
    PRIMARY KEY (actor, key)
);

CREATE INDEX act_keys_at_idx ON tidemark.act_keys (at);

-- Acts that take longer than a request: workers do them in batches, each under a lease that is renewed with every batch. Counters are written with the batch that they count.
CREATE TABLE tidemark.operations (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind       text COLLATE "C" NOT NULL,
    request    jsonb            NOT NULL,
    actor      text COLLATE "C" NOT NULL,
    reason     text,
    state      text COLLATE "C" NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'aborted', 'failed')),
    total      bigint           NOT NULL DEFAULT 0, -- items
    done       bigint           NOT NULL DEFAULT 0,
    skipped    bigint           NOT NULL DEFAULT 0, -- they had changed by then
    failed     bigint           NOT NULL DEFAULT 0,
    progress   jsonb,
    error      text,
    created_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    ended_at   timestamptz,
    ended_by   text COLLATE "C", -- who aborted it
    owner      text COLLATE "C" NOT NULL DEFAULT '',
    expires_at timestamptz      NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

CREATE INDEX operations_running_idx ON tidemark.operations (id) WHERE state = 'running';

-- What an operation is about, frozen when it was confirmed.
CREATE TABLE tidemark.operation_items (
    operation_id bigint           NOT NULL REFERENCES tidemark.operations ON DELETE CASCADE,
    ord          bigint           NOT NULL,
    campaign_id  text COLLATE "C" NOT NULL,
    subject      text COLLATE "C" NOT NULL, -- a projection; or a topic and a publisher, with a slash between them
    seq          bigint           NOT NULL,
    outcome      text COLLATE "C" CHECK (outcome IN ('done', 'skipped', 'failed')),
    detail       text,
    PRIMARY KEY (operation_id, ord)
) WITH (fillfactor = 80);

CREATE INDEX operation_items_left_idx ON tidemark.operation_items (operation_id, ord) WHERE outcome IS NULL;

-- Who has told a worker to finish what it has and take nothing more.
ALTER TABLE tidemark.workers ADD COLUMN drained_by text COLLATE "C";

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
ALTER TABLE tidemark.workers DROP COLUMN drained_by;
DROP TABLE tidemark.operation_items;
DROP TABLE tidemark.operations;
DROP TABLE tidemark.act_keys;
DROP TABLE tidemark.sessions;
DROP TABLE tidemark.tokens;
