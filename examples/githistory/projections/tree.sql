-- projection: git_tree
-- version: 1
-- The files of each repository at the last commit read, as `git ls-tree -r` lists them.

CREATE TABLE git_tree (
    campaign_id text COLLATE "C" NOT NULL,
    path        text COLLATE "C" NOT NULL, -- bytes that are not UTF-8 as \xHH, a backslash doubled
    mode        text             NOT NULL, -- 100644, 100755, 120000, 160000
    object      text             NOT NULL,
    kind        text             NOT NULL  -- file, executable, symlink, submodule
);
-- A path may be longer than an index entry.
CREATE UNIQUE INDEX ON git_tree (campaign_id, md5(path));

-- on: file_added, file_modified, file_mode_changed, file_type_changed
INSERT INTO git_tree (campaign_id, path, mode, object, kind)
VALUES (event.campaign_id, event.payload->>'path', event.payload->>'mode', event.payload->>'object',
    event.payload->>'kind')
ON CONFLICT (campaign_id, md5(path)) DO UPDATE
SET mode = excluded.mode, object = excluded.object, kind = excluded.kind;

-- on: file_renamed
UPDATE git_tree
SET path = event.payload->>'path', mode = event.payload->>'mode', object = event.payload->>'object',
    kind = event.payload->>'kind'
WHERE campaign_id = event.campaign_id AND md5(path) = md5(event.payload->>'from');

-- on: file_deleted
DELETE FROM git_tree
WHERE campaign_id = event.campaign_id AND md5(path) = md5(event.payload->>'path');
