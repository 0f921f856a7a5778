-- A copy of the database may lack values of sequences (logical replication does not copy them) and rows
-- that migrations insert (a restore of some tables). Then positions and ids are handed out twice.

-- greatest_position returns the greatest position that anything has, and what has it. Rows of event_tags
-- are in the order of appends, so it reads the last pages of that table, with p_all the whole table. It
-- sees no events: a position tells nothing.
CREATE OR REPLACE FUNCTION tidemark.greatest_position(p_all boolean, OUT "position" bigint, OUT held_by text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    tags CONSTANT tid := format('(%s,0)', greatest(0, pg_relation_size('tidemark.event_tags')
        / current_setting('block_size')::integer - 8))::tid;
BEGIN
    SELECT p.place, p.what INTO "position", held_by FROM (
        (SELECT j.position AS place, 'an event of the journal' AS what FROM tidemark.journal j
            ORDER BY j.position DESC LIMIT 1)
        UNION ALL (SELECT r.position, format('reader %s of %s', r.publisher, r.topic) FROM tidemark.readers r
            ORDER BY r.position DESC LIMIT 1)
        UNION ALL (SELECT a.last_position, format('archive %s', a.object) FROM tidemark.archives a
            ORDER BY a.last_position DESC LIMIT 1)
        UNION ALL SELECT max(t.position), 'a row of tidemark.event_tags' FROM tidemark.event_tags t
            WHERE NOT p_all AND t.ctid >= tags
        UNION ALL SELECT max(t.position), 'a row of tidemark.event_tags' FROM tidemark.event_tags t WHERE p_all
        UNION ALL SELECT d.next_seq - 1, format('a failed key of %s', p.name) FROM tidemark.projections p
            CROSS JOIN LATERAL (SELECT d.next_seq FROM tidemark.failed d WHERE d.projection = p.name
                AND d.status IN ('failed', 'dead') ORDER BY d.next_seq DESC LIMIT 1) d
            WHERE p.scope = 'journal'
    ) AS p WHERE p.place IS NOT NULL ORDER BY p.place DESC LIMIT 1;
    "position" := coalesce("position", 0);
END
$$;

-- hold_back reports whether the sequence of positions is behind, and then puts it back before the first
-- position of the journal, so that each append is refused until repair_copy has raised it. It changes
-- nothing in a sound database, since the sequence is read after the positions. Roles that write places of
-- readers may not call it: they could stop all appends.
CREATE OR REPLACE FUNCTION tidemark.hold_back() RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    most CONSTANT bigint := (tidemark.greatest_position(false)).position;
    last CONSTANT bigint := coalesce(pg_sequence_last_value('tidemark.journal_position'), 0);
    first bigint;
BEGIN
    IF most <= last THEN
        RETURN false;
    END IF;
    SELECT j.position INTO first FROM tidemark.journal j ORDER BY j.position LIMIT 1;
    PERFORM setval('tidemark.journal_position', coalesce(first - 1, 0), first IS NOT NULL);
    RETURN true;
END
$$;

-- copy_faults returns what a copy of the database lacks. It reads a sequence after what it numbers, so
-- work that goes on meanwhile makes no fault.
CREATE OR REPLACE FUNCTION tidemark.copy_faults(p_all boolean) RETURNS TABLE (object text, fault text, needs bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    most CONSTANT record := tidemark.greatest_position(p_all);
    s record;
BEGIN
    FOR s IN SELECT 'tidemark.journal_position' AS name, most.position AS most, most.held_by AS holder
        UNION ALL SELECT pg_get_serial_sequence(c.oid::regclass::text, a.attname), NULL, c.oid::regclass::text
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace = 'tidemark'::regnamespace AND c.relkind = 'r' AND a.attidentity <> ''
    LOOP
        IF s.most IS NULL THEN
            EXECUTE format('SELECT coalesce(max(t.id), 0) FROM %s t', s.holder) INTO s.most;
        END IF;
        IF s.most > coalesce(pg_sequence_last_value(s.name), 0) THEN
            object := s.name;
            fault := format('stands at %s, and %s has %s', coalesce(pg_sequence_last_value(s.name), 0), s.holder, s.most);
            needs := s.most;
            RETURN NEXT;
        END IF;
    END LOOP;
    needs := NULL;
    fault := 'has no row';
    IF NOT EXISTS (SELECT FROM tidemark.limits) THEN
        object := 'tidemark.limits';
        RETURN NEXT;
    END IF;
    IF NOT EXISTS (SELECT FROM tidemark.operator_log_head) THEN
        object := 'tidemark.operator_log_head';
        RETURN NEXT;
    END IF;
END
$$;

-- repair_copy raises sequences that are behind above all that they number, and inserts rows that are
-- missing: limits as appends have them, and the head of the log of operators at its last link. It returns
-- what it has repaired. Stop programs that append before: it does not wait for them.
CREATE OR REPLACE FUNCTION tidemark.repair_copy() RETURNS TABLE (object text, fault text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    l CONSTANT integer[] := tidemark.append_limits();
    f record;
BEGIN
    FOR f IN SELECT * FROM tidemark.copy_faults(true) LOOP
        IF f.needs >= 1::bigint << 47 THEN
            RAISE EXCEPTION '% %: to raise it so far would leave too few numbers', f.object, f.fault
                USING ERRCODE = 'TM004', HINT = 'correct that row first: no append has got so far';
        ELSIF f.needs IS NOT NULL THEN
            PERFORM setval(f.object::regclass, f.needs);
        ELSIF f.object = 'tidemark.limits' THEN
            INSERT INTO tidemark.limits (campaign_id_bytes, events_per_call, payload_bytes, metadata_bytes, tags,
                tag_bytes, payload_depth, campaigns_per_transaction)
            VALUES (l[1], l[2], l[3], l[4], l[5], l[6], l[7], l[8]) ON CONFLICT DO NOTHING;
        ELSE
            INSERT INTO tidemark.operator_log_head (link, hash, pruned, pruned_hash)
            SELECT coalesce(n.link, 0), coalesce(n.hash, ''), coalesce(o.link, 0), coalesce(o.hash, '')
            FROM (SELECT max(k.link) AS newest, min(k.link) AS oldest FROM tidemark.operator_log k) k
                LEFT JOIN tidemark.operator_log n ON n.link = k.newest
                LEFT JOIN tidemark.operator_log o ON o.link = k.oldest
            ON CONFLICT DO NOTHING;
        END IF;
        object := f.object;
        fault := f.fault;
        RETURN NEXT;
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION tidemark.repair_copy FROM PUBLIC;
