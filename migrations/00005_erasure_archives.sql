-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- One row stands for one request of operators to erase a campaign or subjects, however often it was
-- interrupted and continued. The subject's key is not kept: it may be a person's name. The row has a keyed
-- hash, by which only the same request finds it again. The program that carries the request out holds the
-- row until held_until, by the database's clock. Each holder has a generation of its own, so one that has
-- lost the row changes nothing.
CREATE TABLE tidemark.erasures (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    request     bytea            NOT NULL CHECK (octet_length(request) = 32),
    campaign_id text COLLATE "C",
    fields      jsonb            NOT NULL DEFAULT '{}',
    personal    jsonb,
    took        jsonb[]          NOT NULL DEFAULT '{}',
    actor       text COLLATE "C" NOT NULL,
    reason      text             NOT NULL,
    began_at    timestamptz      NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz,
    holder      text COLLATE "C" NOT NULL DEFAULT '',
    login       text COLLATE "C" NOT NULL DEFAULT session_user,
    generation  bigint           NOT NULL DEFAULT 1,
    held_until  timestamptz      NOT NULL DEFAULT clock_timestamp(),
    changed     jsonb            NOT NULL DEFAULT '{}',
    abandoned_by text COLLATE "C",
    abandon_reason text
);
COMMENT ON TABLE tidemark.erasures IS 'Erasures of campaigns and subjects. Kept as long as the journal.';
COMMENT ON COLUMN tidemark.erasures.id IS 'number, which erased events have in their metadata';
COMMENT ON COLUMN tidemark.erasures.request IS 'keyed hash of the campaign or the subjects, and of what it takes';
COMMENT ON COLUMN tidemark.erasures.campaign_id IS 'campaign, NULL for subjects';
COMMENT ON COLUMN tidemark.erasures.fields IS 'subject fields of the catalogue that it searches, by event type';
COMMENT ON COLUMN tidemark.erasures.personal IS 'personal fields that it takes, by event type, NULL for whole payloads';
COMMENT ON COLUMN tidemark.erasures.took IS
    'personal fields that calls took before another one continued with more, by event type, oldest first';
COMMENT ON COLUMN tidemark.erasures.actor IS 'operator who began it';
COMMENT ON COLUMN tidemark.erasures.began_at IS 'time of the first event';
COMMENT ON COLUMN tidemark.erasures.ended_at IS 'time of the last, NULL while it runs or if it was interrupted';
COMMENT ON COLUMN tidemark.erasures.holder IS 'operator who carries it out, or did last';
COMMENT ON COLUMN tidemark.erasures.login IS 'database login of the holder: no other one makes changes';
COMMENT ON COLUMN tidemark.erasures.generation IS 'grows with each holder; all changes are made under it';
COMMENT ON COLUMN tidemark.erasures.held_until IS 'time from which the same request may take it over';
COMMENT ON COLUMN tidemark.erasures.changed IS 'number of rows that were changed, by table';
COMMENT ON COLUMN tidemark.erasures.abandoned_by IS 'operator who has abandoned what was left of it, NULL if none has';
COMMENT ON COLUMN tidemark.erasures.abandon_reason IS 'reason of that operator';

-- There is one unfinished erasure of a request.
CREATE UNIQUE INDEX erasures_request_idx ON tidemark.erasures (request) WHERE ended_at IS NULL;

-- The secret of the installation, of 366 random bits: the inner and outer block of HMAC-SHA256.
-- Keys of erasures and hashes of subjects are derived from it. Only functions of the owner read it.
CREATE TABLE tidemark.erasure_secret (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    inner_block bytea NOT NULL CHECK (octet_length(inner_block) = 64),
    outer_block bytea NOT NULL CHECK (octet_length(outer_block) = 64)
);
COMMENT ON TABLE tidemark.erasure_secret IS
    'Secret from which keys of erasures are derived. For the owner''s functions alone.';
COMMENT ON COLUMN tidemark.erasure_secret.one IS 'there is one row';
COMMENT ON COLUMN tidemark.erasure_secret.inner_block IS 'the secret with the inner padding of HMAC';
COMMENT ON COLUMN tidemark.erasure_secret.outer_block IS 'the secret with the outer padding of HMAC';
INSERT INTO tidemark.erasure_secret (inner_block, outer_block)
SELECT string_agg(set_byte(decode('00', 'hex'), 0, get_byte(r.secret, n) # 54), '' ORDER BY n),
    string_agg(set_byte(decode('00', 'hex'), 0, get_byte(r.secret, n) # 92), '' ORDER BY n)
FROM (SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))
    || decode(repeat('00', 32), 'hex') AS secret OFFSET 0) r CROSS JOIN generate_series(0, 63) n;
-- +goose StatementBegin
DO $$
DECLARE
    grantee text;
BEGIN
    -- Default privileges may give new tables to workers: migrations/roles/roles.sql.
    REVOKE ALL ON tidemark.erasure_secret FROM PUBLIC;
    FOR grantee IN SELECT DISTINCT a.grantee::regrole::text FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
        WHERE c.oid = 'tidemark.erasure_secret'::regclass AND a.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format('REVOKE ALL ON tidemark.erasure_secret FROM %s', grantee);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- Grows when events have been erased. Processes that keep pages of the journal in memory read it every
-- second, and then drop them.
CREATE SEQUENCE tidemark.erased AS bigint MINVALUE 0 START 0 CACHE 1;
SELECT nextval('tidemark.erased'); -- the next call moves last_value
COMMENT ON SEQUENCE tidemark.erased IS 'Grows when events have been erased, so that processes drop pages in memory.';

-- The events of an erasure.
CREATE TABLE tidemark.erased_events (
    erasure  bigint NOT NULL REFERENCES tidemark.erasures,
    position bigint NOT NULL,
    event_id uuid    NOT NULL,
    tags     bytea[] NOT NULL DEFAULT '{}',
    calls    integer NOT NULL DEFAULT 0,
    PRIMARY KEY (erasure, position)
);
CREATE INDEX erased_events_position_idx ON tidemark.erased_events (position);
COMMENT ON TABLE tidemark.erased_events IS 'Events of an erasure.';
COMMENT ON COLUMN tidemark.erased_events.tags IS
    'keyed hashes of the tags that it had, for the notices of later erasures';
COMMENT ON COLUMN tidemark.erased_events.calls IS
    'elements of erasures.took at that time: the next one, if there is one by now, has the personal fields that it lost';

-- Tags and subjects that erased events had, as keyed hashes, so that a later erasure of the subject finds
-- them again: a field may be declared personal later.
CREATE TABLE tidemark.erased_subjects (
    hash        bytea            NOT NULL CHECK (octet_length(hash) = 32),
    position    bigint           NOT NULL,
    campaign_id text COLLATE "C" NOT NULL,
    seq         bigint           NOT NULL,
    event_type  text COLLATE "C" NOT NULL,
    PRIMARY KEY (hash, position)
);
COMMENT ON TABLE tidemark.erased_subjects IS 'Keyed hashes of the tags and subjects of erased events.';
COMMENT ON COLUMN tidemark.erased_subjects.hash IS 'HMAC with the secret of the installation of the SHA-256';

-- Hashes of the values that were erased, with the key of the erasure, which the certificate has. So they
-- tell nothing without it, and a search finds the values wherever they are left.
CREATE TABLE tidemark.erased_values (
    erasure bigint   NOT NULL REFERENCES tidemark.erasures,
    hash    bytea    NOT NULL,
    words   smallint NOT NULL,
    PRIMARY KEY (erasure, hash)
);
COMMENT ON TABLE tidemark.erased_values IS 'Keyed hashes of the values that an erasure has erased.';
COMMENT ON COLUMN tidemark.erased_values.hash IS 'SHA-256 of the erasure''s key and the value: tidemark.spoken';
COMMENT ON COLUMN tidemark.erased_values.words IS 'words of the value, at most 8';

-- What the erased events had that a topic may filter by, for each event of type events_erased that an
-- erasure has appended. An event of this type without a row here is not a notice.
CREATE TABLE tidemark.erasure_notices (
    position   bigint           NOT NULL,
    n          integer          NOT NULL,
    event_type text COLLATE "C" NOT NULL,
    intent     tidemark.intent  NOT NULL,
    tags       bytea[]          NOT NULL,
    PRIMARY KEY (position, n)
);
COMMENT ON TABLE tidemark.erasure_notices IS
    'What topics may filter erased events by: a row for each notice, type, intent and set of tags.';
COMMENT ON COLUMN tidemark.erasure_notices.position IS 'position of the notice, an event of type events_erased';
COMMENT ON COLUMN tidemark.erasure_notices.n IS 'number of the row, from 1';
COMMENT ON COLUMN tidemark.erasure_notices.tags IS 'keyed hashes of their tags, and of the keys of these';

-- The keys that personal fields of events are sealed with, one for each subject. To delete a key is to
-- erase these fields, wherever copies of the events are. Leave this table out of backups that are kept.
CREATE TABLE tidemark.keys (
    id         uuid             PRIMARY KEY,
    subject    bytea            NOT NULL UNIQUE CHECK (octet_length(subject) = 32),
    wrapped    bytea            NOT NULL CHECK (octet_length(wrapped) BETWEEN 32 AND 8192),
    wrapped_by text COLLATE "C" NOT NULL CHECK (octet_length(wrapped_by) BETWEEN 1 AND 256),
    created_at timestamptz      NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE tidemark.keys IS 'Keys of subjects, which seal personal fields. Deleted when the subject is erased.';
COMMENT ON COLUMN tidemark.keys.id IS 'id, which sealed fields name';
COMMENT ON COLUMN tidemark.keys.subject IS 'SHA-256 of the subject';
COMMENT ON COLUMN tidemark.keys.wrapped IS 'the key, encrypted by the wrapping key';
COMMENT ON COLUMN tidemark.keys.wrapped_by IS 'name of the wrapping key';
COMMENT ON COLUMN tidemark.keys.created_at IS 'time of the first append for the subject';

-- A key that was deleted never comes back under its id, neither by a program that still has it nor by an
-- older backup of the keys. The subject gets another key with its next append.
CREATE TABLE tidemark.deleted_keys (
    id         uuid        PRIMARY KEY,
    deleted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE tidemark.deleted_keys IS 'Ids of keys that were deleted. Kept as long as the journal.';
COMMENT ON COLUMN tidemark.deleted_keys.id IS 'random id of the key';

-- By a wrapping key's check value programs recognise it before they wrap by it: a file or a service may have
-- another key of that name. It opens nothing, so backups may have it.
CREATE TABLE tidemark.wrapping_keys (
    name        text COLLATE "C" PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 256),
    check_value bytea            NOT NULL CHECK (octet_length(check_value) BETWEEN 32 AND 8192),
    recorded_by text COLLATE "C" NOT NULL DEFAULT session_user,
    recorded_at timestamptz      NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE tidemark.wrapping_keys IS 'Names of wrapping keys, each with a value to recognise the key.';
COMMENT ON COLUMN tidemark.wrapping_keys.check_value IS 'a known text, encrypted by the wrapping key';
COMMENT ON COLUMN tidemark.wrapping_keys.recorded_by IS 'database login that used it first, or that trusted it';

-- Objects that have the events of archived campaigns (docs/adr/0018). Positions, types and times bound
-- what an object had since all of it was last restored. The other numbers are of the campaigns that are
-- not restored.
CREATE TABLE tidemark.archives (
    object         text COLLATE "C" PRIMARY KEY CHECK (object <> ''),
    sha256         bytea       NOT NULL CHECK (octet_length(sha256) = 32),
    bytes          bigint      NOT NULL CHECK (bytes > 0),
    campaigns      bigint      NOT NULL,
    events         bigint      NOT NULL,
    removed        bigint      NOT NULL,
    removed_hash   bigint      NOT NULL,
    first_position bigint      NOT NULL,
    last_position  bigint      NOT NULL,
    last_recorded  timestamptz NOT NULL,
    event_types    text[]      NOT NULL,
    members        bigint[]    NOT NULL,
    actor          text COLLATE "C" NOT NULL,
    reason         text        NOT NULL,
    archived_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    lane           smallint    NOT NULL DEFAULT 0,
    changed_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE tidemark.archives IS 'Objects with the events of archived campaigns: the manifest (docs/adr/0018).';
COMMENT ON COLUMN tidemark.archives.object IS 'name in the archive';
COMMENT ON COLUMN tidemark.archives.bytes IS 'size of the object';
COMMENT ON COLUMN tidemark.archives.campaigns IS 'campaigns that are not restored';
COMMENT ON COLUMN tidemark.archives.events IS 'events of these campaigns';
COMMENT ON COLUMN tidemark.archives.removed IS 'events of these that are not in the journal, not even as stubs';
COMMENT ON COLUMN tidemark.archives.removed_hash IS 'XOR of uuid_hash_extended(event_id, 0) over the removed events';
COMMENT ON COLUMN tidemark.archives.first_position IS 'position of the first event of the object';
COMMENT ON COLUMN tidemark.archives.last_position IS 'position of its last event';
COMMENT ON COLUMN tidemark.archives.last_recorded IS 'time of the append that was last';
COMMENT ON COLUMN tidemark.archives.members IS
    'hashtextextended(campaign_id, 0) of all campaigns that it has lines of, restored ones too';
COMMENT ON COLUMN tidemark.archives.archived_at IS 'time at which the events left the journal';
COMMENT ON COLUMN tidemark.archives.lane IS 'lane of its last change: changes that run at once have different ones';
COMMENT ON COLUMN tidemark.archives.changed_at IS 'time of its last change, by which archive_mark tells changes apart';

CREATE INDEX archives_position_idx ON tidemark.archives (last_position);

-- Each position read asks whether an archive is in its way: almost always an index without entries.
CREATE INDEX archives_span_idx ON tidemark.archives USING gist (int8range(first_position, last_position, '[]'))
    WHERE campaigns > 0;
CREATE INDEX archives_changed_idx ON tidemark.archives (lane, changed_at);

-- Erasures ask which objects have lines of a campaign.
CREATE INDEX archives_members_idx ON tidemark.archives USING gin (members);

-- Policies by which workers archive closed campaigns, and their last runs.
CREATE TABLE tidemark.retention (
    policy      text COLLATE "C" PRIMARY KEY,
    closed_for  interval    NOT NULL,
    event_types text[]      NOT NULL,
    every       interval    NOT NULL,
    rate        integer     NOT NULL,
    began_at    timestamptz,
    ended_at    timestamptz,
    campaigns   bigint      NOT NULL DEFAULT 0,
    events      bigint      NOT NULL DEFAULT 0,
    left_out    bigint      NOT NULL DEFAULT 0,
    reasons     jsonb       NOT NULL DEFAULT '[]',
    error       text        NOT NULL DEFAULT '',
    position    bigint
);
COMMENT ON TABLE tidemark.retention IS 'Policies by which workers archive closed campaigns, with their last runs.';
COMMENT ON COLUMN tidemark.retention.policy IS 'name in the file';
COMMENT ON COLUMN tidemark.retention.closed_for IS 'time since the last event of a campaign';
COMMENT ON COLUMN tidemark.retention.event_types IS 'types of the last event of a closed campaign';
COMMENT ON COLUMN tidemark.retention.every IS 'time between the beginnings of two runs';
COMMENT ON COLUMN tidemark.retention.rate IS 'most events a second';
COMMENT ON COLUMN tidemark.retention.began_at IS 'beginning of the last run';
COMMENT ON COLUMN tidemark.retention.ended_at IS 'its end, NULL while it runs or if it was interrupted';
COMMENT ON COLUMN tidemark.retention.campaigns IS 'campaigns that it has archived';
COMMENT ON COLUMN tidemark.retention.events IS 'their events';
COMMENT ON COLUMN tidemark.retention.left_out IS 'closed campaigns that it has left in the journal';
COMMENT ON COLUMN tidemark.retention.reasons IS 'the first of these, with the reason';
COMMENT ON COLUMN tidemark.retention.error IS 'what has stopped it';
COMMENT ON COLUMN tidemark.retention.position IS
    'up to which it has seen events, NULL before it has been through all campaigns';

-- Campaigns that a policy looks at, and no others: those with a closing event since it began, those that it
-- had to leave, and those that are back from the archive.
CREATE TABLE tidemark.retention_due (
    policy      text COLLATE "C" NOT NULL REFERENCES tidemark.retention ON DELETE CASCADE,
    campaign_id text COLLATE "C" NOT NULL,
    due_at      timestamptz      NOT NULL,
    PRIMARY KEY (policy, campaign_id)
);
COMMENT ON TABLE tidemark.retention_due IS
    'Campaigns that policies of retention look at: closed, left in the journal, or back from the archive.';
COMMENT ON COLUMN tidemark.retention_due.due_at IS 'time from which the policy may archive it';
CREATE INDEX retention_due_idx ON tidemark.retention_due (policy, due_at, campaign_id);

-- Archived campaigns that appends need, until workers have brought them back and for as long as these
-- are not archived again.
CREATE TABLE tidemark.restore_requests (
    campaign_id text COLLATE "C" PRIMARY KEY,
    asked_by    text COLLATE "C" NOT NULL,
    asked_at    timestamptz      NOT NULL,
    attempts    integer          NOT NULL DEFAULT 0,
    attempt_at  timestamptz      NOT NULL,
    error       text             NOT NULL DEFAULT '',
    kept_until  timestamptz
);
COMMENT ON TABLE tidemark.restore_requests IS 'Archived campaigns that appends have asked for: tidemark.ask_restore.';
COMMENT ON COLUMN tidemark.restore_requests.campaign_id IS 'campaign to bring back';
COMMENT ON COLUMN tidemark.restore_requests.asked_by IS 'login of the program';
COMMENT ON COLUMN tidemark.restore_requests.attempt_at IS 'time of the next attempt';
COMMENT ON COLUMN tidemark.restore_requests.error IS 'what the last attempt has met';
COMMENT ON COLUMN tidemark.restore_requests.kept_until IS
    'time until which it is not archived again, NULL while it is not back';

-- Workers look for due requests each second: almost always an index without entries.
CREATE INDEX restore_requests_attempt_idx ON tidemark.restore_requests (attempt_at) WHERE kept_until IS NULL;

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP TABLE tidemark.restore_requests;
DROP TABLE tidemark.retention_due;
DROP TABLE tidemark.retention;
DROP TABLE tidemark.archives;
DROP TABLE tidemark.wrapping_keys;
DROP TABLE tidemark.deleted_keys;
DROP TABLE tidemark.keys;
DROP TABLE tidemark.erasure_notices;
DROP TABLE tidemark.erased_values;
DROP TABLE tidemark.erased_subjects;
DROP TABLE tidemark.erased_events;
DROP SEQUENCE tidemark.erased;
DROP TABLE tidemark.erasure_secret;
DROP TABLE tidemark.erasures;
