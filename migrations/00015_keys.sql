-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

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
COMMENT ON COLUMN tidemark.deleted_keys.deleted_at IS 'time of its end';

-- +goose StatementBegin
CREATE FUNCTION tidemark.end_key() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO tidemark.deleted_keys (id) VALUES (OLD.id) ON CONFLICT DO NOTHING;
        RETURN OLD;
    ELSIF EXISTS (SELECT FROM tidemark.deleted_keys d WHERE d.id = NEW.id) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER keys_end AFTER DELETE ON tidemark.keys FOR EACH ROW EXECUTE FUNCTION tidemark.end_key();
CREATE TRIGGER keys_ended BEFORE INSERT ON tidemark.keys FOR EACH ROW EXECUTE FUNCTION tidemark.end_key();

-- By a wrapping key's check value programs recognise it before they wrap by it: a file or a service may have
-- another key of that name. It opens nothing, so backups may have it.
CREATE TABLE tidemark.wrapping_keys (
    name        text COLLATE "C" PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 256),
    check_value bytea            NOT NULL CHECK (octet_length(check_value) BETWEEN 32 AND 8192),
    recorded_by text COLLATE "C" NOT NULL DEFAULT session_user,
    recorded_at timestamptz      NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE tidemark.wrapping_keys IS 'Names of wrapping keys, each with a value to recognise the key.';
COMMENT ON COLUMN tidemark.wrapping_keys.name IS 'name of the wrapping key';
COMMENT ON COLUMN tidemark.wrapping_keys.check_value IS 'a known text, encrypted by the wrapping key';
COMMENT ON COLUMN tidemark.wrapping_keys.recorded_by IS 'database login that used it first, or that trusted it';
COMMENT ON COLUMN tidemark.wrapping_keys.recorded_at IS 'time of that';

-- wrapping_key returns the check value of a wrapping key, in base64, NULL if there is none. With p_check it
-- records that one unless there is one: it waits up to 10 s for a transaction that is recording one (SQLSTATE
-- 55P03). Only operators replace a check value.
-- +goose StatementBegin
CREATE FUNCTION tidemark.wrapping_key(p_name text, p_check text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET lock_timeout = '10s' SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_check <> '' THEN
        INSERT INTO tidemark.wrapping_keys (name, check_value) VALUES (p_name, decode(p_check, 'base64'))
        ON CONFLICT (name) DO NOTHING;
    END IF;
    RETURN (SELECT translate(encode(w.check_value, 'base64'), E'\n', '')
        FROM tidemark.wrapping_keys w WHERE w.name = p_name);
END
$$;
-- +goose StatementEnd

-- trust_wrapping_key puts a check value in the place of what is recorded for a wrapping key. The log of
-- operators has each call: programs wrap by no other key of that name from then on.
-- +goose StatementBegin
CREATE FUNCTION tidemark.trust_wrapping_key(p_name text, p_check text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO tidemark.wrapping_keys AS w (name, check_value) VALUES (p_name, decode(p_check, 'base64'))
    ON CONFLICT (name) DO UPDATE SET check_value = excluded.check_value, recorded_by = excluded.recorded_by,
        recorded_at = excluded.recorded_at;
    PERFORM tidemark.log_act(session_user, 'wrapping_key_recorded', '', '', '', '', 0,
        jsonb_build_object('name', p_name), '', 0, '');
END
$$;
-- +goose StatementEnd

-- subject_keys returns the keys of subjects. p_keys is an array of objects with "subject", a hash in hex.
-- One that also has "id", "wrapped" (base64) and "wrapped_by" creates the key if the subject has none: it
-- waits for a transaction that is creating it. With "check", a hash in hex, it creates the key only while the
-- wrapping key has that check value. Keys are created in one order, so that two calls never deadlock. Appenders
-- have no other way to keys.
-- +goose StatementBegin
CREATE FUNCTION tidemark.subject_keys(p_keys jsonb)
    RETURNS TABLE (subject text, id text, wrapped text, wrapped_by text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    IF jsonb_path_exists(p_keys, '$[*].id') THEN -- one that came back in a transaction with an old snapshot
        DELETE FROM tidemark.keys t USING tidemark.deleted_keys d WHERE t.id = d.id
            AND t.subject IN (SELECT decode(k ->> 'subject', 'hex') FROM jsonb_array_elements(p_keys) AS k);
    END IF;
    INSERT INTO tidemark.keys (id, subject, wrapped, wrapped_by)
    SELECT (k ->> 'id')::uuid, decode(k ->> 'subject', 'hex'), decode(k ->> 'wrapped', 'base64'), k ->> 'wrapped_by'
    FROM jsonb_array_elements(p_keys) AS k WHERE k ? 'id' AND (NOT k ? 'check' OR EXISTS (
        SELECT FROM tidemark.wrapping_keys w
        WHERE w.name = k ->> 'wrapped_by' AND encode(sha256(w.check_value), 'hex') = k ->> 'check'))
    ORDER BY k ->> 'subject'
    ON CONFLICT (subject) DO NOTHING;
    RETURN QUERY SELECT encode(s.subject, 'hex'), s.id::text, translate(encode(s.wrapped, 'base64'), E'\n', ''),
        s.wrapped_by
    FROM jsonb_array_elements(p_keys) AS k
        CROSS JOIN LATERAL (SELECT * FROM tidemark.keys t WHERE t.subject = decode(k ->> 'subject', 'hex') LIMIT 1) s
    WHERE NOT EXISTS (SELECT FROM tidemark.deleted_keys d WHERE d.id = s.id);
END
$$;
-- +goose StatementEnd

-- forget_keys deletes the keys of an erasure's subjects and returns how many. What they have sealed cannot be
-- read any more.
-- +goose StatementBegin
CREATE FUNCTION tidemark.forget_keys(p_erasure bigint, p_generation bigint, p_subjects text[]) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    n bigint;
BEGIN
    PERFORM tidemark.hold_erasure(p_erasure, p_generation);
    DELETE FROM tidemark.keys k
    USING (SELECT DISTINCT sha256(convert_to(s, 'UTF8')) AS subject FROM unnest(p_subjects) AS s) f
    WHERE k.subject = f.subject;
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM tidemark.count_erased(p_erasure, jsonb_build_object('keys', n));
    RETURN n;
END
$$;
-- +goose StatementEnd

-- forget_key deletes the key with an id, such as one that does not open, and reports whether there was one.
-- What it has sealed is erased. Programs drop it from their memory, and the log of operators has the act.
-- +goose StatementBegin
CREATE FUNCTION tidemark.forget_key(p_id uuid, p_actor text, p_reason text, p_way text DEFAULT '',
    p_token_id bigint DEFAULT 0, p_address text DEFAULT '') RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF coalesce(p_actor, '') = '' OR coalesce(p_reason, '') = '' THEN
        RAISE EXCEPTION 'the actor or the reason is missing'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'say who does it and why: it is written to the log';
    END IF;
    DELETE FROM tidemark.keys k WHERE k.id = p_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM nextval('tidemark.erased');
    PERFORM tidemark.log_act(p_actor, 'key_deleted', p_reason, '', '', '', 0,
        jsonb_build_object('request', jsonb_build_object('id', p_id)), p_way, p_token_id, p_address);
    RETURN true;
END
$$;
-- +goose StatementEnd

-- rewrap_keys puts keys that were wrapped anew in the place of those that p_before wraps, and returns how
-- many. The log of operators has each call: who overwrites keys can make what they seal unreadable.
-- +goose StatementBegin
CREATE FUNCTION tidemark.rewrap_keys(p_ids uuid[], p_before text[], p_wrapped bytea[], p_by text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET jit = off SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    n bigint;
BEGIN
    IF (cardinality(p_before), cardinality(p_wrapped)) IS DISTINCT FROM (cardinality(p_ids), cardinality(p_ids)) THEN
        RAISE EXCEPTION '% keys have % wrapping keys and % values', cardinality(p_ids), cardinality(p_before),
            cardinality(p_wrapped) USING ERRCODE = 'invalid_parameter_value', HINT = 'give one of each';
    END IF;
    UPDATE tidemark.keys k SET wrapped = w.wrapped, wrapped_by = p_by
    FROM unnest(p_ids, p_before, p_wrapped) AS w (id, before, wrapped) WHERE k.id = w.id AND k.wrapped_by = w.before;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n > 0 THEN
        PERFORM tidemark.log_act(session_user, 'keys_rewrapped', '', '', '', '', 0,
            jsonb_build_object('keys', n, 'wrapped_by', p_by), '', 0, '');
    END IF;
    RETURN n;
END
$$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION tidemark.forget_key, tidemark.rewrap_keys, tidemark.trust_wrapping_key FROM PUBLIC;
REVOKE ALL ON FUNCTION tidemark.subject_keys, tidemark.wrapping_key, tidemark.forget_keys FROM PUBLIC;

SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
DROP FUNCTION tidemark.rewrap_keys;
DROP FUNCTION tidemark.forget_key;
DROP FUNCTION tidemark.forget_keys;
DROP FUNCTION tidemark.subject_keys;
DROP FUNCTION tidemark.trust_wrapping_key;
DROP FUNCTION tidemark.wrapping_key;
DROP TABLE tidemark.wrapping_keys;
DROP TABLE tidemark.keys;
DROP FUNCTION tidemark.end_key;
DROP TABLE tidemark.deleted_keys;
