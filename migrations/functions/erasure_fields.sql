-- What an erasure leaves of an event.

-- field_values returns what a path leads to in a document: of all elements where it leads through an array.
-- It has no SET, so that Postgres can make it a part of the query.
CREATE OR REPLACE FUNCTION tidemark.field_values(p_document jsonb, p_path text) RETURNS SETOF jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT p_document #> string_to_array(p_path, '.')
    WHERE jsonb_typeof(p_document #> string_to_array(p_path, '.')) <> 'array'
    UNION ALL
    SELECT v.value FROM jsonb_path_query(p_document, (
        SELECT 'lax $' || string_agg('.' || to_json(s.name)::text || '[*]', '' ORDER BY s.n)
        FROM string_to_table(p_path, '.') WITH ORDINALITY AS s (name, n))::jsonpath) AS v (value)
    WHERE coalesce(jsonb_typeof(p_document #> string_to_array(p_path, '.')), 'array') = 'array';
END;

-- holds reports whether a text is one of the values, has one after the sign of a tag, or has one of at
-- least 4 characters as words.
CREATE OR REPLACE FUNCTION tidemark.holds(p_text text, p_values text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT p_text = ANY (p_values) OR strpos(p_text, '=') > 0 AND substr(p_text, strpos(p_text, '=') + 1) = ANY (p_values)
        OR EXISTS (SELECT FROM unnest(p_values) AS v (value) WHERE length(v.value) >= 4
            AND tidemark.spoken(v.value) <> ''
            AND strpos(' ' || tidemark.spoken(p_text) || ' ', ' ' || tidemark.spoken(v.value) || ' ') > 0)
$$;

-- cut takes a field out of a document: of all elements where the path leads through an array.
CREATE OR REPLACE FUNCTION tidemark.cut(p_document jsonb, p_path text[]) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF jsonb_typeof(p_document) = 'array' THEN
        RETURN (SELECT coalesce(jsonb_agg(tidemark.cut(e.value, p_path) ORDER BY e.n), '[]')
            FROM jsonb_array_elements(p_document) WITH ORDINALITY AS e (value, n));
    ELSIF jsonb_typeof(p_document) <> 'object' OR NOT p_document ? p_path[1] THEN
        RETURN p_document;
    ELSIF cardinality(p_path) = 1 THEN
        RETURN p_document - p_path[1];
    END IF;
    RETURN jsonb_set(p_document, p_path[1:1], tidemark.cut(p_document -> p_path[1], p_path[2:]));
END
$$;

-- without takes the texts, numbers and fields out of a document that hold one of the values, or puts
-- p_instead in the place of the texts and numbers.
CREATE OR REPLACE FUNCTION tidemark.without(p_document jsonb, p_values text[], p_instead jsonb DEFAULT NULL)
    RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    CASE jsonb_typeof(p_document)
    WHEN 'object' THEN
        RETURN (SELECT coalesce(jsonb_object_agg(f.key, f.value) FILTER (WHERE f.value IS NOT NULL), '{}')
            FROM (SELECT o.key, tidemark.without(o.value, p_values, p_instead) AS value FROM jsonb_each(p_document) AS o
                WHERE NOT tidemark.holds(o.key, p_values)) AS f);
    WHEN 'array' THEN
        RETURN (SELECT coalesce(jsonb_agg(f.value ORDER BY f.n) FILTER (WHERE f.value IS NOT NULL), '[]')
            FROM (SELECT a.n, tidemark.without(a.value, p_values, p_instead) AS value
                FROM jsonb_array_elements(p_document) WITH ORDINALITY AS a (value, n)) AS f);
    WHEN 'string', 'number' THEN
        RETURN CASE WHEN tidemark.holds(p_document #>> '{}', p_values) THEN p_instead ELSE p_document END;
    ELSE
        RETURN p_document;
    END CASE;
END
$$;

-- subject_values returns the subjects, and the values of those that are tags.
CREATE OR REPLACE FUNCTION tidemark.subject_values(p_subjects text[]) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(DISTINCT v.value), '{}') FROM unnest(p_subjects) AS s (subject)
    CROSS JOIN LATERAL (VALUES (s.subject), (substr(s.subject, strpos(s.subject, '=') + 1))) AS v (value)
    WHERE v.value <> ''
$$;

-- erased_form returns an event as an erasure leaves it, without its mark. Without paths nothing is left of
-- payload, metadata, tags, actor and aggregate. Otherwise the fields of the paths go from the payload:
-- $actor, $aggregate_id, $tags and $metadata name what is beside it, and $tags.KEY and $metadata.FIELD a
-- part. Beside the payload goes also what holds a value that went, or one of p_values.
CREATE OR REPLACE FUNCTION tidemark.erased_form(p_event tidemark.journal, p_paths jsonb, p_values text[])
    RETURNS tidemark.journal
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    held text[];
    path text;
    said CONSTANT jsonb := p_event.payload;
BEGIN
    IF p_paths IS NULL THEN
        p_event.payload := '{}';
        p_event.metadata := NULL;
        p_event.tags := NULL;
        p_event.actor := NULL;
        p_event.aggregate_type := NULL;
        p_event.aggregate_id := NULL;
        RETURN p_event;
    END IF;
    FOR path IN SELECT jsonb_array_elements_text(p_paths) LOOP
        CASE split_part(path, '.', 1)
        WHEN '$actor' THEN
            p_event.actor := NULL;
        WHEN '$aggregate_id' THEN
            p_event.aggregate_id := NULL;
        WHEN '$tags' THEN
            p_event.tags := array(SELECT t.tag FROM unnest(p_event.tags) AS t (tag) WHERE path <> '$tags'
                AND split_part(t.tag, '=', 1) <> substr(path, length('$tags.') + 1));
        WHEN '$metadata' THEN
            p_event.metadata := CASE WHEN path <> '$metadata' THEN
                tidemark.cut(p_event.metadata, (string_to_array(path, '.'))[2:]) END;
        ELSE
            p_event.payload := tidemark.cut(p_event.payload, string_to_array(path, '.'));
        END CASE;
    END LOOP;
    held := p_values || array(SELECT tidemark.erasable(said) EXCEPT SELECT tidemark.erasable(p_event.payload));
    IF tidemark.holds(p_event.actor, held) THEN
        p_event.actor := NULL;
    END IF;
    IF tidemark.holds(p_event.aggregate_id, held) THEN
        p_event.aggregate_id := NULL;
    END IF;
    p_event.tags := nullif(array(SELECT t.tag FROM unnest(p_event.tags) WITH ORDINALITY AS t (tag, n)
        WHERE NOT tidemark.holds(t.tag, held) ORDER BY t.n), '{}');
    p_event.metadata := tidemark.without(p_event.metadata, held);
    RETURN p_event;
END
$$;

-- event_texts returns what an event says, in one document.
CREATE OR REPLACE FUNCTION tidemark.event_texts(p_event tidemark.journal) RETURNS jsonb
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_array(p_event.metadata, p_event.actor, p_event.aggregate_id, p_event.payload,
        (SELECT jsonb_agg(regexp_replace(tag, '^[^=]*=', '')) FROM unnest(p_event.tags) AS tag))
$$;

-- tells reports whether an event in the journal, as it is by now, has each word of a text.
CREATE OR REPLACE FUNCTION tidemark.tells(p_position bigint, p_text text) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM tidemark.journal j WHERE j.position = p_position
        AND string_to_array(tidemark.spoken(p_text), ' ')
            <@ string_to_array(tidemark.spoken(tidemark.event_texts(j)::text), ' '))
$$;
