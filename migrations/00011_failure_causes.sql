-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- Failed campaigns by cause. Operators see them grouped by projection and fingerprint, and open the
-- campaigns of a group, however many there are. Rows that are being rebuilt are not in it, so the
-- index is built quickly.
CREATE INDEX deferred_causes_idx ON tidemark.deferred (projection, fingerprint, status, next_attempt_at, next_seq,
    campaign_id) WHERE status IN ('failed', 'dead');

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP INDEX tidemark.deferred_causes_idx;
