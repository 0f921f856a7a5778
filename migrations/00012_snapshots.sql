-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- What a projection's tables held of a campaign after an event, so that looking back on a long
-- campaign need not begin at its first event. They can be made again, and go when the projection's
-- rows are made from scratch.
CREATE TABLE tidemark.snapshots (
    campaign_id text COLLATE "C" NOT NULL,
    projection  text COLLATE "C" NOT NULL,
    version     integer          NOT NULL, -- of the projection
    seq         bigint           NOT NULL,
    shape       text COLLATE "C" NOT NULL, -- a digest of the statements that make the projection's tables
    left_out    bigint[]         NOT NULL, -- the events up to seq that had been left out
    table_names text[]           NOT NULL, -- in the order of their creation
    rows        jsonb            NOT NULL, -- of each table a list of its rows, each as the text of a composite value
    made_at     timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (campaign_id, projection, version, seq)
);

CREATE INDEX snapshots_projection_idx ON tidemark.snapshots (projection, version);

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP TABLE tidemark.snapshots;
