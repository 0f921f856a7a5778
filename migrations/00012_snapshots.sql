-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- What a projection's tables held of a campaign after an event, so that looking back on a long
-- campaign need not begin at its first event. They can be made again, and go when the projection's
-- rows are made from scratch.
CREATE TABLE tidemark.snapshots (
    campaign_id text COLLATE "C" NOT NULL,
    projection  text COLLATE "C" NOT NULL,
    version     integer          NOT NULL,
    seq         bigint           NOT NULL,
    shape       text COLLATE "C" NOT NULL, -- a digest of the statements that make the projection's tables
    left_out    bigint[]         NOT NULL,
    table_names text[]           NOT NULL,
    rows        jsonb            NOT NULL,
    made_at     timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (campaign_id, projection, version, seq)
);
COMMENT ON TABLE tidemark.snapshots IS
    'Rows of a campaign in a projection''s tables after an event, so that looking back starts there.';
COMMENT ON COLUMN tidemark.snapshots.campaign_id IS 'campaign';
COMMENT ON COLUMN tidemark.snapshots.projection IS 'projection';
COMMENT ON COLUMN tidemark.snapshots.version IS 'version of the projection';
COMMENT ON COLUMN tidemark.snapshots.seq IS 'event after which the rows are as kept';
COMMENT ON COLUMN tidemark.snapshots.shape IS 'digest of the statements that create the tables';
COMMENT ON COLUMN tidemark.snapshots.left_out IS 'resolved and skipped events up to seq';
COMMENT ON COLUMN tidemark.snapshots.table_names IS 'tables in the order of their creation';
COMMENT ON COLUMN tidemark.snapshots.rows IS 'for each table a list of its rows, each as the text of a composite value';
COMMENT ON COLUMN tidemark.snapshots.made_at IS 'time';

CREATE INDEX snapshots_projection_idx ON tidemark.snapshots (projection, version);

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP TABLE tidemark.snapshots;
