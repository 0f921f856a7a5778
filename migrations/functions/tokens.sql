-- Tokens of the admin listener, and browser sessions that began with one.

-- create_token creates a token that expires after p_lifetime (NULL: never) and returns its id, or
-- NULL if the name is taken. p_actor and the arguments after it identify the caller for the
-- operators' log.
CREATE OR REPLACE FUNCTION tidemark.create_token(p_name text, p_role text, p_hash bytea, p_lifetime interval,
        p_actor text, p_reason text, p_way text, p_token_id bigint, p_address text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    made tidemark.tokens;
BEGIN
    IF p_name IS NULL OR p_name !~ '^[^[:space:][:cntrl:]:]+$' OR octet_length(p_name) > 128 THEN
        RAISE EXCEPTION 'the token''s name is %', quote_nullable(p_name)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use 1 to 128 bytes without spaces and colons';
    ELSIF p_role IS NULL OR p_role NOT IN ('viewer', 'operator', 'admin') THEN
        RAISE EXCEPTION 'the token''s role is %', quote_nullable(p_role)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use viewer, operator or admin';
    ELSIF p_hash IS NULL OR octet_length(p_hash) <> 32 THEN
        RAISE EXCEPTION 'the token''s hash has % bytes', octet_length(p_hash)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use its SHA-256: 32 bytes';
    ELSIF p_lifetime <= interval '0' THEN
        RAISE EXCEPTION 'the token would expire after %', p_lifetime
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use a time above 0, or NULL for never';
    ELSIF coalesce(p_actor, '') = '' THEN
        RAISE EXCEPTION 'the actor is missing'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'say who does it: it is written to the log';
    END IF;
    INSERT INTO tidemark.tokens AS t (name, role, hash, created_by, expires_at)
    VALUES (p_name, p_role, p_hash, p_actor, coalesce(clock_timestamp() + p_lifetime, 'infinity'))
    ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING RETURNING t.* INTO made;
    IF made.id IS NOT NULL THEN
        PERFORM tidemark.log_act(p_actor, 'token_created', p_reason, '', '', '', 0, jsonb_build_object('request',
            jsonb_build_object('name', p_name, 'role', p_role, 'expires_at',
                to_char(nullif(made.expires_at, 'infinity') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))),
            p_way, p_token_id, p_address);
    END IF;
    RETURN made.id;
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.create_token FROM PUBLIC;

-- revoke_token revokes the token with that name, and reports whether there was one. The other
-- arguments are as for create_token.
CREATE OR REPLACE FUNCTION tidemark.revoke_token(p_name text, p_actor text, p_reason text, p_way text,
        p_token_id bigint, p_address text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF coalesce(p_actor, '') = '' THEN
        RAISE EXCEPTION 'the actor is missing'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'say who does it: it is written to the log';
    END IF;
    UPDATE tidemark.tokens t SET revoked_at = clock_timestamp(), revoked_by = p_actor
    WHERE t.name = p_name AND t.revoked_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM tidemark.log_act(p_actor, 'token_revoked', p_reason, '', '', '', 0,
        jsonb_build_object('request', jsonb_build_object('name', p_name)), p_way, p_token_id, p_address);
    RETURN true;
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.revoke_token FROM PUBLIC;

-- use_token returns the valid token with that hash. It records the use at most once a minute.
CREATE OR REPLACE FUNCTION tidemark.use_token(p_hash bytea) RETURNS TABLE (id bigint, name text, role text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    used timestamptz;
BEGIN
    SELECT t.id, t.name, t.role, t.last_used_at INTO use_token.id, use_token.name, use_token.role, used
    FROM tidemark.tokens t
    WHERE t.hash = p_hash AND t.revoked_at IS NULL AND t.expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF used IS NULL OR used < clock_timestamp() - interval '1 minute' THEN
        UPDATE tidemark.tokens t SET last_used_at = clock_timestamp() WHERE t.id = use_token.id;
    END IF;
    RETURN NEXT;
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.use_token FROM PUBLIC;

-- find_session returns the token of the valid session with that hash.
CREATE OR REPLACE FUNCTION tidemark.find_session(p_hash bytea) RETURNS TABLE (id bigint, name text, role text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT t.id, t.name, t.role FROM tidemark.sessions s JOIN tidemark.tokens t ON t.id = s.token_id
    WHERE s.hash = p_hash AND s.expires_at > clock_timestamp()
        AND t.revoked_at IS NULL AND t.expires_at > clock_timestamp();
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.find_session FROM PUBLIC;

-- begin_session creates a session of p_lifetime for the token with that hash, and reports whether
-- the token is valid. It also deletes up to 100 expired sessions.
CREATE OR REPLACE FUNCTION tidemark.begin_session(p_token bytea, p_hash bytea, p_lifetime interval) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_hash IS NULL OR octet_length(p_hash) <> 32 OR p_lifetime IS NULL
        OR p_lifetime NOT BETWEEN interval '0' AND interval '30 days' THEN
        RAISE EXCEPTION 'the session has a hash of % bytes and lasts %', octet_length(p_hash), p_lifetime
            USING ERRCODE = 'invalid_parameter_value', HINT = 'use a SHA-256 and at most 30 days';
    END IF;
    DELETE FROM tidemark.sessions WHERE hash = ANY (ARRAY(SELECT s.hash FROM tidemark.sessions s
        WHERE s.expires_at < clock_timestamp() ORDER BY s.expires_at LIMIT 100 FOR UPDATE SKIP LOCKED));
    INSERT INTO tidemark.sessions (hash, token_id, expires_at)
    SELECT p_hash, t.id, clock_timestamp() + p_lifetime FROM tidemark.tokens t
    WHERE t.hash = p_token AND t.revoked_at IS NULL AND t.expires_at > clock_timestamp();
    RETURN FOUND;
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.begin_session FROM PUBLIC;

-- end_session deletes the session with that hash.
CREATE OR REPLACE FUNCTION tidemark.end_session(p_hash bytea) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM tidemark.sessions WHERE hash = p_hash;
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.end_session FROM PUBLIC;

-- valid_secrets returns the SHA-256 of the hash of each valid token and of up to 100,000 unexpired
-- sessions: enough to recognise a secret, too little to begin a session.
CREATE OR REPLACE FUNCTION tidemark.valid_secrets() RETURNS SETOF bytea
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    SELECT sha256(t.hash) FROM tidemark.tokens t WHERE t.revoked_at IS NULL AND t.expires_at > clock_timestamp()
    UNION ALL (SELECT sha256(s.hash) FROM tidemark.sessions s WHERE s.expires_at > clock_timestamp() LIMIT 100000);
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.valid_secrets FROM PUBLIC;

-- holding_secrets returns the hashes in p_hashes that belong to a valid token or to a session of
-- one.
CREATE OR REPLACE FUNCTION tidemark.holding_secrets(p_hashes bytea[]) RETURNS SETOF bytea
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    SELECT h FROM unnest(p_hashes) h
    WHERE EXISTS (SELECT FROM tidemark.tokens t
            WHERE t.hash = h AND t.revoked_at IS NULL AND t.expires_at > clock_timestamp())
        OR EXISTS (SELECT FROM tidemark.find_session(h));
END
$$;
REVOKE EXECUTE ON FUNCTION tidemark.holding_secrets FROM PUBLIC;
