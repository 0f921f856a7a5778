-- Keys that personal fields are sealed with.

-- end_key notes the id of a deleted key, and refuses a key whose id was noted.
CREATE OR REPLACE FUNCTION tidemark.end_key() RETURNS trigger
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
CREATE OR REPLACE TRIGGER keys_end AFTER DELETE ON tidemark.keys FOR EACH ROW EXECUTE FUNCTION tidemark.end_key();
CREATE OR REPLACE TRIGGER keys_ended BEFORE INSERT ON tidemark.keys FOR EACH ROW EXECUTE FUNCTION tidemark.end_key();

-- wrapping_key returns the check value of a wrapping key, in base64, NULL if there is none. With p_check it
-- records that one unless there is one: it waits up to 10 s for a transaction that is recording one (SQLSTATE
-- 55P03). Only operators replace a check value.
CREATE OR REPLACE FUNCTION tidemark.wrapping_key(p_name text, p_check text) RETURNS text
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
REVOKE ALL ON FUNCTION tidemark.wrapping_key FROM PUBLIC;

-- trust_wrapping_key puts a check value in the place of what is recorded for a wrapping key. The log of
-- operators has each call: programs wrap by no other key of that name from then on.
CREATE OR REPLACE FUNCTION tidemark.trust_wrapping_key(p_name text, p_check text) RETURNS void
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
REVOKE ALL ON FUNCTION tidemark.trust_wrapping_key FROM PUBLIC;

-- subject_keys returns the keys of subjects. p_keys is an array of objects with "subject", a hash in hex.
-- One that also has "id", "wrapped" (base64) and "wrapped_by" creates the key if the subject has none: it
-- waits for a transaction that is creating it. With "check", a hash in hex, it creates the key only while the
-- wrapping key has that check value. Keys are created in one order, so that two calls never deadlock. Appenders
-- have no other way to keys.
CREATE OR REPLACE FUNCTION tidemark.subject_keys(p_keys jsonb)
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
REVOKE ALL ON FUNCTION tidemark.subject_keys FROM PUBLIC;

-- forget_keys deletes the keys of an erasure's subjects and returns how many. What they have sealed cannot be
-- read any more.
CREATE OR REPLACE FUNCTION tidemark.forget_keys(p_erasure bigint, p_generation bigint, p_subjects text[]) RETURNS bigint
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
REVOKE ALL ON FUNCTION tidemark.forget_keys FROM PUBLIC;

-- forget_key deletes the key with an id, such as one that does not open, and reports whether there was one.
-- What it has sealed is erased. Programs drop it from their memory, and the log of operators has the act.
CREATE OR REPLACE FUNCTION tidemark.forget_key(p_id uuid, p_actor text, p_reason text, p_way text DEFAULT '',
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
REVOKE ALL ON FUNCTION tidemark.forget_key FROM PUBLIC;

-- rewrap_keys puts keys that were wrapped anew in the place of those that p_before wraps, and returns how
-- many. The log of operators has each call: who overwrites keys can make what they seal unreadable.
CREATE OR REPLACE FUNCTION tidemark.rewrap_keys(p_ids uuid[], p_before text[], p_wrapped bytea[], p_by text)
    RETURNS bigint
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
REVOKE ALL ON FUNCTION tidemark.rewrap_keys FROM PUBLIC;
