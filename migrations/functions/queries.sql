-- Queries by types and tags: docs/guides/conditions.md.

-- query_terms splits a query {"items": [{"types": […], "tags": […]}]} into terms, one for each item
-- and type. The type is NULL where the item names none. A query without items selects everything.
CREATE OR REPLACE FUNCTION tidemark.query_terms(p_query jsonb)
    RETURNS TABLE (item integer, event_type text, tags text[])
    LANGUAGE plpgsql IMMUTABLE ROWS 4
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    items CONSTANT jsonb := p_query -> 'items';
BEGIN
    IF coalesce(jsonb_typeof(p_query), 'null') <> 'object' OR coalesce(jsonb_typeof(items), 'null') <> 'array'
        OR p_query - 'items' <> '{}' THEN
        RAISE EXCEPTION 'query %: it must be an object {"items": […]} and nothing else',
            left(coalesce(p_query::text, 'NULL'), 256)
            USING ERRCODE = 'TM004', HINT = 'an empty array of items selects everything';
    ELSIF items = '[]' THEN
        RETURN QUERY SELECT 0, NULL::text, '{}'::text[];
        RETURN;
    ELSIF jsonb_path_exists(items, 'strict $[*] ? (@.type() != "object")')
        OR jsonb_path_exists(items,
            '$[*].keyvalue() ? (@.key != "types" && @.key != "tags" || @.value.type() != "array")')
        OR jsonb_path_exists(items, '$[*].*[*] ? (@.type() != "string" || @ == "")') THEN
        RAISE EXCEPTION 'query %: each item must be an object of "types" and "tags", which are arrays of strings that are not empty', left(p_query::text, 256)
            USING ERRCODE = 'TM004';
    END IF;
    RETURN QUERY
    SELECT (i.ord - 1)::integer, t.event_type, array(SELECT DISTINCT jsonb_array_elements_text(i.item -> 'tags'))
    FROM jsonb_array_elements(items) WITH ORDINALITY AS i (item, ord)
    CROSS JOIN LATERAL (
        SELECT DISTINCT jsonb_array_elements_text(i.item -> 'types') UNION ALL SELECT NULL
            WHERE coalesce(i.item -> 'types', '[]') = '[]'
    ) AS t (event_type);
END
$$;

-- rarest_tag returns the tag with the fewest events. Counting stops at 100 events a tag.
CREATE OR REPLACE FUNCTION tidemark.rarest_tag(p_tags text[]) RETURNS text
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (
        SELECT t.tag FROM unnest(p_tags) AS t (tag)
        CROSS JOIN LATERAL (SELECT count(*) AS events
            FROM (SELECT FROM tidemark.event_tags g WHERE g.tag = t.tag ORDER BY g.tag, g.event_type, g.position
            LIMIT 100) g) AS n
        ORDER BY n.events, t.tag LIMIT 1
    );
END
$$;

-- query_matches returns the first p_limit positions that a query selects, after p_after, up to
-- p_until and not in p_seen, each with the first item that selects it. Each term reads ranges of
-- one index in order: its rarest tag with its type (or with each type of that tag in turn), its
-- type, or the journal. Other tags are probed.
CREATE OR REPLACE FUNCTION tidemark.query_matches(p_query jsonb, p_after bigint, p_until bigint, p_limit integer,
    p_seen bigint[] DEFAULT '{}')
    RETURNS TABLE ("position" bigint, item integer)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    -- A shortcut for most queries, which have types and one tag: half the time.
    IF jsonb_path_exists(p_query, '$.items[*]') AND NOT jsonb_path_exists(p_query,
        '$.items[*] ? (!(@.tags.size() == 1 && @.types.size() > 0))') THEN
        RETURN QUERY
        SELECT m.position, min(t.item)
        FROM tidemark.query_terms(p_query) AS t
        CROSS JOIN LATERAL (
            SELECT g.position FROM tidemark.event_tags g
            WHERE g.tag = t.tags[1] AND g.event_type = t.event_type AND g.position > p_after AND g.position <= p_until
                AND g.position <> ALL (p_seen)
            ORDER BY g.tag, g.event_type, g.position LIMIT p_limit
        ) AS m
        GROUP BY m.position ORDER BY m.position LIMIT p_limit;
        RETURN;
    END IF;
    -- Events with tags are never archived without a stub, all others are.
    PERFORM tidemark.require_positions(p_after, p_until, CASE WHEN t.event_type IS NOT NULL THEN ARRAY[t.event_type] END)
    FROM tidemark.query_terms(p_query) AS t WHERE t.tags = '{}';
    RETURN QUERY
    WITH terms AS MATERIALIZED (
        SELECT t.item, t.event_type, t.tags, CASE WHEN cardinality(t.tags) > 1 THEN tidemark.rarest_tag(t.tags)
            ELSE t.tags[1] END AS tag FROM tidemark.query_terms(p_query) AS t
    ), found AS (
        SELECT m.position, t.item FROM terms t
        CROSS JOIN LATERAL (
            SELECT t.event_type WHERE t.event_type IS NOT NULL
            UNION ALL (
                WITH RECURSIVE k AS (
                    SELECT (SELECT g.event_type FROM tidemark.event_tags g WHERE g.tag = t.tag
                        ORDER BY g.tag, g.event_type LIMIT 1) AS event_type WHERE t.event_type IS NULL
                    UNION ALL
                    SELECT (SELECT g.event_type FROM tidemark.event_tags g WHERE g.tag = t.tag
                        AND g.event_type > k.event_type ORDER BY g.tag, g.event_type LIMIT 1) FROM k
                        WHERE k.event_type IS NOT NULL
                )
                SELECT k.event_type FROM k WHERE k.event_type IS NOT NULL
            )
        ) AS y (event_type)
        CROSS JOIN LATERAL (
            SELECT g.position FROM tidemark.event_tags g
            WHERE g.tag = t.tag AND g.event_type = y.event_type AND g.position > p_after AND g.position <= p_until
                AND g.position <> ALL (p_seen)
                AND (cardinality(t.tags) = 1 OR cardinality(t.tags) = (
                    SELECT count(*) FROM unnest(t.tags) AS o (tag) CROSS JOIN LATERAL (
                        SELECT FROM tidemark.event_tags h WHERE h.tag = o.tag AND h.event_type = y.event_type
                            AND h.position = g.position LIMIT 1
                    ) AS h))
            ORDER BY g.tag, g.event_type, g.position LIMIT p_limit
        ) AS m
        WHERE t.tag IS NOT NULL
        UNION ALL
        SELECT m.position, t.item FROM terms t
        CROSS JOIN LATERAL (
            SELECT j.position FROM tidemark.journal j
            WHERE j.event_type = t.event_type AND j.position > p_after AND j.position <= p_until
                AND j.position <> ALL (p_seen)
            ORDER BY j.event_type, j.position LIMIT p_limit
        ) AS m
        WHERE t.tag IS NULL AND t.event_type IS NOT NULL
        UNION ALL
        SELECT m.position, t.item FROM terms t
        CROSS JOIN LATERAL (
            SELECT j.position FROM tidemark.journal j
            WHERE j.position > p_after AND j.position <= p_until AND j.position <> ALL (p_seen) ORDER BY j.position
                LIMIT p_limit
        ) AS m
        WHERE t.tag IS NULL AND t.event_type IS NULL
    )
    SELECT f.position, min(f.item) FROM found f GROUP BY f.position ORDER BY f.position LIMIT p_limit;
END
$$;

-- read returns the first p_limit events that a query selects, from position p_from on, in order and
-- up to the writer floor. No event can later appear between them. A rare event may be far away: p_until
-- bounds what one call looks at.
CREATE OR REPLACE FUNCTION tidemark.read(p_query jsonb, p_from bigint DEFAULT 0,
    p_limit integer DEFAULT 100, p_until bigint DEFAULT 9223372036854775807) RETURNS SETOF tidemark.journal
    LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    floor CONSTANT bigint := tidemark.read_floor();
BEGIN
    -- A separate statement, whose snapshot is younger than the floor.
    RETURN QUERY
    SELECT j.* FROM tidemark.query_matches(p_query, p_from - 1, least(floor, p_until), p_limit) AS m
    CROSS JOIN LATERAL (SELECT * FROM tidemark.journal j WHERE j.position BETWEEN m.position AND m.position
        ORDER BY j.position LIMIT 1) AS j
    ORDER BY m.position;
END
$$;

-- tag_terms returns a simple query (up to 16 items, each of one tag with types) as an array tag,
-- type, tag, type, … It uses expressions alone. It returns NULL for any other query and for an
-- invalid one. A query with one tag and one type is recognised by comparing it with a rebuilt one.
CREATE OR REPLACE FUNCTION tidemark.tag_terms(p_query jsonb) RETURNS text[]
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    items CONSTANT jsonb := p_query -> 'items';
    item jsonb;
    tag text := p_query #>> '{items,0,tags,0}';
    type CONSTANT text := p_query #>> '{items,0,types,0}';
    terms text[] := '{}';
BEGIN
    IF tag <> '' AND type <> '' AND p_query = jsonb_build_object('items',
        jsonb_build_array(jsonb_build_object('types', jsonb_build_array(type), 'tags', jsonb_build_array(tag)))) THEN
        RETURN ARRAY[tag, type];
    END IF;
    IF jsonb_typeof(items) IS DISTINCT FROM 'array' OR items = '[]' OR p_query - 'items' <> '{}'
        OR jsonb_array_length(items) > 16 THEN
        RETURN NULL;
    END IF;
    FOR i IN 0 .. jsonb_array_length(items) - 1 LOOP
        item := items -> i;
        IF jsonb_path_match(item,
            'strict $.tags.type() == "array" && $.tags.size() == 1 && $.tags[0].type() == "string" && $.types.type() == "array" && $.types.size() > 0', silent => true) IS NOT true
            OR item - '{types,tags}'::text[] <> '{}' THEN
            RETURN NULL;
        END IF;
        tag := item -> 'tags' ->> 0;
        FOR t IN 0 .. jsonb_array_length(item -> 'types') - 1 LOOP
            IF tag = '' OR coalesce(item -> 'types' ->> t, '') = ''
                OR jsonb_typeof(item -> 'types' -> t) <> 'string' THEN
                RETURN NULL;
            END IF;
            terms := terms || tag || (item -> 'types' ->> t);
        END LOOP;
    END LOOP;
    RETURN terms;
END
$$;
