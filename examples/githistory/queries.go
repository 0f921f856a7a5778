package main

// The table git_tree belongs to the projection in projections/tree.sql, in the schema
// "tidemark_views".

// createListing creates a table for git's own listing that lasts as long as the transaction.
const createListing = `
CREATE TEMPORARY TABLE git_listing (
    campaign_id text COLLATE "C", path text COLLATE "C", mode text, object text, kind text
) ON COMMIT DROP`

// countFiles counts the files of the campaigns from $1 to $2 in the table, the files in git, and
// the files that differ.
const countFiles = `
SELECT count(t.path), count(g.path),
       count(*) FILTER (WHERE (t.mode, t.object, t.kind) IS DISTINCT FROM (g.mode, g.object, g.kind))
FROM (SELECT campaign_id, path, mode, object, kind FROM tidemark_views.git_tree WHERE campaign_id >= $1
	AND campaign_id < $2) AS t
FULL JOIN git_listing AS g ON (g.campaign_id, g.path) = (t.campaign_id, t.path)`

// listDifferences lists the first $3 files that differ.
const listDifferences = `
SELECT coalesce(t.campaign_id, g.campaign_id) AS campaign_id, coalesce(t.path, g.path) AS path,
       t.mode, t.object, t.kind, g.mode AS git_mode, g.object AS git_object, g.kind AS git_kind
FROM (SELECT campaign_id, path, mode, object, kind FROM tidemark_views.git_tree WHERE campaign_id >= $1
	AND campaign_id < $2) AS t
FULL JOIN git_listing AS g ON (g.campaign_id, g.path) = (t.campaign_id, t.path)
WHERE (t.mode, t.object, t.kind) IS DISTINCT FROM (g.mode, g.object, g.kind)
ORDER BY 1, 2
LIMIT $3`
