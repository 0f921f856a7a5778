-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- What failed, by its cause: operators see pairs grouped by projection and fingerprint, and go on
-- from a group to its pairs, however many there are. Pairs that are being rebuilt are not in it, so
-- it is made in a moment.
CREATE INDEX deferred_causes_idx ON tidemark.deferred (projection, fingerprint, status, next_attempt_at, next_seq,
    campaign_id) WHERE status IN ('failed', 'dead');

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP INDEX tidemark.deferred_causes_idx;
