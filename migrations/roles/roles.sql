-- Roles for Tidemark in one database. Run it as a superuser, or as the owner of the database if
-- that role may create roles, before the first migration and again after each one:
--
--   tidemark migrate roles | psql "$URL" -v ON_ERROR_STOP=1
--
-- It can run any number of times: it creates missing objects and sets the privileges below. The
-- roles cannot log in. Create logins that are members of them:
--
--   CREATE ROLE app_worker LOGIN PASSWORD '…' IN ROLE tidemark_worker;
--   ALTER ROLE app_worker SET role = 'tidemark_worker';      -- so that all workers own their tables together
--
--   tidemark_owner      owns the schema tidemark; migrations run as it
--   tidemark_appender   appends events, schedules and cancels appends, asks for archived campaigns, waits for
--                       projections, only through functions; reads nothing
--   tidemark_application an appender that also reads events and read models, decides on events, and keeps an inbox
--   tidemark_worker     applies: reads the journal, writes queue and leases, owns the read models; appends
--                       nothing but what is scheduled and due
--   tidemark_process    a worker that may also run processes, whose reactions append anything to any campaign
--   tidemark_publisher  publishes: reads the journal, writes positions and parked events
--   tidemark_reader     reads the read models, and nothing of the schema tidemark: neither payloads nor
--                       errors, which may quote them
--   tidemark_operator   acts through `tidemark`: may do what a worker and a publisher may, and reads the
--                       statistics of others' sessions
--
-- Two settings of the session change names, for several installations on one server:
-- tidemark.role_prefix (default tidemark), and tidemark.read_models, the schema of the read models
-- (default tidemark_views). tidemark migrate roles --prefix and --schema set them.
-- Only the worker may create objects in that schema, so it cannot be
-- public.
--
-- append, append_all, append_if, append_at, schedule, cancel_scheduled, reschedule, fire_scheduled, react, await
-- and applied become SECURITY DEFINER functions here. They run as the owner, so callers need no privileges on tables. A
-- migration that replaces them must keep that (docs/guides/operations/upgrades.md).

BEGIN;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL lock_timeout = '5s';
-- Runs one at a time, because roles belong to the whole server.
SELECT pg_advisory_xact_lock(hashtextextended('tidemark roles.sql', 0));

DO $roles$
DECLARE
    prefix CONSTANT text := coalesce(nullif(current_setting('tidemark.role_prefix', true), ''), 'tidemark');
    models CONSTANT text := coalesce(nullif(current_setting('tidemark.read_models', true), ''), 'tidemark_views');
    owner CONSTANT text := prefix || '_owner';
    appender CONSTANT text := prefix || '_appender';
    application CONSTANT text := prefix || '_application';
    worker CONSTANT text := prefix || '_worker';
    process CONSTANT text := prefix || '_process';
    publisher CONSTANT text := prefix || '_publisher';
    reader CONSTANT text := prefix || '_reader';
    operator CONSTANT text := prefix || '_operator';
    name text;
    object record;
BEGIN
    IF models IN ('public', 'tidemark') OR starts_with(models, 'pg_') THEN
        RAISE EXCEPTION 'the read models cannot be in the schema %', models
            USING HINT = 'set tidemark.read_models and TIDEMARK_SCHEMA to a schema that only the worker creates in';
    END IF;
    FOREACH name IN ARRAY ARRAY[owner, appender, application, worker, process, publisher, reader, operator] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE', name);
        END IF;
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), name);
    END LOOP;
    EXECUTE format('GRANT %I, %I TO %I', worker, publisher, operator);
    EXECUTE format('GRANT %I TO %I', worker, process);
    EXECUTE format('GRANT %I, %I TO %I', appender, reader, application);

    -- Only the owner creates and changes the schema tidemark and public.goose_db_version. Workers
    -- create the schemas in which they check projections, rebuild and verify.
    EXECUTE format('GRANT CREATE ON DATABASE %I TO %I, %I', current_database(), owner, worker);
    REVOKE CREATE ON SCHEMA public FROM PUBLIC; -- the default since Postgres 15
    EXECUTE format('REVOKE CREATE ON SCHEMA public FROM %I, %I, %I, %I, %I, %I, %I',
        appender, application, worker, process, publisher, reader, operator);
    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA public TO %I', owner);
    EXECUTE format('CREATE SCHEMA IF NOT EXISTS %I', models);
    EXECUTE format('REVOKE ALL ON SCHEMA %I FROM PUBLIC, %I, %I, %I, %I, %I',
        models, appender, application, publisher, reader, operator);
    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO %I', models, worker);
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I, %I', models, reader, operator);
    FOREACH name IN ARRAY ARRAY[worker, process] LOOP
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %I GRANT SELECT ON TABLES TO %I', name, models,
            reader);
    END LOOP;
    FOR object IN
        SELECT c.oid::regclass AS name FROM pg_class c
        WHERE c.relnamespace = models::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
            AND pg_get_userbyid(c.relowner) IN (worker, process)
    LOOP
        EXECUTE format('GRANT SELECT ON %s TO %I', object.name, reader);
    END LOOP;

    -- Default privileges for the objects of later migrations.
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC', owner);
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I GRANT USAGE ON SCHEMAS TO %I, %I, %I', owner, appender,
        worker, publisher);
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO %I', owner,
        worker);
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I REVOKE UPDATE ON SEQUENCES FROM %I', owner, worker);
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I GRANT SELECT, USAGE ON SEQUENCES TO %I', owner, worker);
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I GRANT EXECUTE ON FUNCTIONS TO %I, %I', owner, worker,
        publisher);

    IF to_regnamespace('tidemark') IS NULL THEN
        RAISE NOTICE 'there is no schema tidemark yet: migrate as a member of %, and run this again', owner;
        RETURN;
    END IF;

    -- The schema and everything in it belong to the owner.
    IF (SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'tidemark') <> owner THEN
        EXECUTE format('ALTER SCHEMA tidemark OWNER TO %I', owner);
    END IF;
    FOR object IN
        SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
            ELSE 'TABLE' END AS kind, c.oid::regclass::text AS name
        FROM pg_class c
        WHERE (c.relnamespace = 'tidemark'::regnamespace OR c.oid = to_regclass('public.goose_db_version'))
            AND c.relkind IN ('r', 'p', 'S', 'v', 'm') AND pg_get_userbyid(c.relowner) <> owner
            -- A sequence of a column follows its table.
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                AND d.deptype IN ('a', 'i'))
        UNION ALL
        SELECT 'TYPE', t.oid::regtype::text FROM pg_type t
        WHERE t.typnamespace = 'tidemark'::regnamespace AND t.typtype IN ('e', 'd')
            AND pg_get_userbyid(t.typowner) <> owner
        UNION ALL
        SELECT CASE p.prokind WHEN 'a' THEN 'AGGREGATE' ELSE 'ROUTINE' END, p.oid::regprocedure::text FROM pg_proc p
        WHERE p.pronamespace = 'tidemark'::regnamespace AND pg_get_userbyid(p.proowner) <> owner
    LOOP
        EXECUTE format('ALTER %s %s OWNER TO %I', object.kind, object.name, owner);
    END LOOP;
    REVOKE ALL ON SCHEMA tidemark FROM PUBLIC;
    REVOKE EXECUTE ON ALL ROUTINES IN SCHEMA tidemark FROM PUBLIC;
    EXECUTE format('GRANT USAGE ON SCHEMA tidemark TO %I, %I, %I, %I', appender, worker, publisher, operator);
    EXECUTE format('REVOKE ALL ON public.goose_db_version FROM %I', worker);
    EXECUTE format('GRANT SELECT ON public.goose_db_version TO %I, %I', worker, publisher);

    IF to_regprocedure('tidemark.repair_copy()') IS NULL THEN -- of the newest migration
        RAISE NOTICE 'the schema tidemark is older than this script: migrate, and run this again';
        RETURN;
    END IF;

    -- Worker: everything except appending and changing appended events.
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tidemark TO %I', worker);
    -- No role sets a sequence: tokens, the log and scheduled appends get their numbers from one, and waits
    -- are times. Functions that run as the owner do it. A new consumer group takes a position of the
    -- journal as a mark.
    EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA tidemark FROM %I, %I, %I, %I', worker, appender, publisher,
        operator);
    EXECUTE format('GRANT SELECT ON ALL SEQUENCES IN SCHEMA tidemark TO %I', worker);
    EXECUTE format('GRANT USAGE ON SEQUENCE tidemark.journal_position TO %I', worker);
    EXECUTE format('GRANT EXECUTE ON ALL ROUTINES IN SCHEMA tidemark TO %I', worker);
    EXECUTE format('REVOKE INSERT, UPDATE, DELETE, TRUNCATE
        ON tidemark.journal, tidemark.journal_changes, tidemark.event_tags, tidemark.limits, tidemark.scheduled FROM %I',
        worker);
    EXECUTE format('REVOKE INSERT, UPDATE, DELETE, TRUNCATE
        ON tidemark.operator_log, tidemark.operator_log_head FROM %I', worker); -- log_act and prune_log write
    EXECUTE format('REVOKE INSERT, UPDATE, DELETE, TRUNCATE
        ON tidemark.histories, tidemark.incarnation FROM %I', worker); -- keep_history writes
    -- Tokens and sessions are written only through functions, and their hashes cannot be read.
    EXECUTE format('REVOKE ALL ON tidemark.tokens, tidemark.sessions FROM %I', worker);
    EXECUTE format('GRANT SELECT
        (id, name, role, created_at, created_by, expires_at, last_used_at, revoked_at, revoked_by) ON tidemark.tokens TO %I', worker);

    -- Publisher: the journal and its own tables.
    EXECUTE format('GRANT SELECT ON tidemark.journal, tidemark.event_tags, tidemark.journal_position, tidemark.waiting TO %I', publisher);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON tidemark.readers, tidemark.relays, tidemark.parked, tidemark.ghosts TO %I', publisher);
    EXECUTE format('REVOKE ALL ON tidemark.operator_log, tidemark.operator_log_head FROM %I', publisher);
    EXECUTE format('GRANT EXECUTE ON ALL ROUTINES IN SCHEMA tidemark TO %I', publisher);
    -- It prunes the log of operators, and neither reads nor writes it.
    EXECUTE format('REVOKE EXECUTE ON FUNCTION tidemark.log_act FROM %I', publisher);
    EXECUTE format('REVOKE EXECUTE ON FUNCTION tidemark.create_token, tidemark.revoke_token, tidemark.use_token,
        tidemark.find_session, tidemark.begin_session, tidemark.end_session, tidemark.valid_secrets,
        tidemark.holding_secrets FROM %I', publisher);

    -- Appender: functions that run as the owner. Workers and publishers make what is due. Operators cancel and
    -- move by cancel_for_operator and reschedule_for_operator, which write the log.
    FOR object IN
        SELECT p.oid::regprocedure::text AS name, p.proname FROM pg_proc p
        WHERE p.pronamespace = 'tidemark'::regnamespace
            AND p.proname IN ('append', 'append_all', 'append_if', 'append_at', 'schedule', 'cancel_scheduled',
                'reschedule', 'fire_scheduled')
    LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', object.name);
        CONTINUE WHEN object.proname = 'fire_scheduled';
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM %I, %I', object.name, publisher, worker);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', object.name, appender);
    END LOOP;
    EXECUTE format('REVOKE EXECUTE ON FUNCTION tidemark.cancel_for_operator, tidemark.reschedule_for_operator FROM %I',
        publisher);

    -- Only processes schedule appends.
    ALTER FUNCTION tidemark.react SECURITY DEFINER;
    EXECUTE format('REVOKE EXECUTE ON FUNCTION tidemark.react FROM %I, %I', publisher, worker);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tidemark.react TO %I', process);

    -- It may wait for projections. Both functions tell nothing of events.
    ALTER FUNCTION tidemark.await SECURITY DEFINER;
    ALTER FUNCTION tidemark.applied SECURITY DEFINER;
    EXECUTE format('GRANT EXECUTE ON FUNCTION tidemark.await, tidemark.applied, tidemark.history, tidemark.resume TO %I',
        appender);

    -- Application: reads events, also archived ones and sealed ones, and keeps its own inbox.
    EXECUTE format('GRANT SELECT ON tidemark.journal, tidemark.event_tags, tidemark.journal_position, tidemark.archives,
        tidemark.keys, tidemark.deleted_keys TO %I', application);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON tidemark.inbox TO %I', application);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tidemark.read, tidemark.read_floor, tidemark.query_matches,
        tidemark.query_terms, tidemark.rarest_tag, tidemark.find_event, tidemark.require_positions, tidemark.instance,
        tidemark.archive_mark TO %I', application);

    -- Erasures are the operator's alone, and change everything through functions that run as the owner. Nobody
    -- reads the secret, and only operators ask for events of erased subjects.
    EXECUTE format('REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON tidemark.erasures, tidemark.erased_events,
        tidemark.erased_subjects, tidemark.erased_values, tidemark.erasure_notices FROM %I', worker);
    EXECUTE format('REVOKE ALL ON tidemark.erasure_secret FROM %I', worker);
    EXECUTE format('REVOKE EXECUTE ON FUNCTION tidemark.derive, tidemark.secret_hash, tidemark.tag_hashes,
        tidemark.begin_erasure, tidemark.abandon_erasure, tidemark.erasure_key, tidemark.hold_erasure,
        tidemark.release_erasure, tidemark.erased_of, tidemark.erase, tidemark.erase_traces, tidemark.erase_scheduled,
        tidemark.erase_keys, tidemark.erase_items, tidemark.forget_statistics, tidemark.end_erasure,
        tidemark.import_erased FROM %I, %I', worker, publisher);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tidemark.begin_erasure, tidemark.abandon_erasure,
        tidemark.erasure_key, tidemark.hold_erasure, tidemark.release_erasure, tidemark.erased_of, tidemark.erase,
        tidemark.erase_traces, tidemark.erase_scheduled, tidemark.erase_keys, tidemark.erase_items,
        tidemark.forget_statistics, tidemark.end_erasure TO %I', operator);
    -- Only the owner imports lines of erased events, which others could forge. Publishers ask tidemark.notices,
    -- and workers publish too.
    EXECUTE format('GRANT EXECUTE ON FUNCTION tidemark.notices TO %I, %I', worker, publisher);
    EXECUTE format('REVOKE EXECUTE ON FUNCTION tidemark.request_hash FROM %I', publisher);
    EXECUTE format('GRANT USAGE ON SEQUENCE tidemark.erased TO %I', operator);
    EXECUTE format('GRANT SELECT ON SEQUENCE tidemark.erased TO %I', publisher);

    -- Keys of subjects: workers and operators read them wrapped, all others only for subjects they name. Appenders
    -- record a wrapping key before its first use, and only operators replace that.
    EXECUTE format('REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON tidemark.keys, tidemark.deleted_keys,
        tidemark.wrapping_keys FROM %I', worker);
    EXECUTE format('GRANT SELECT ON tidemark.deleted_keys TO %I', publisher); -- for one that may read keys
    EXECUTE format('REVOKE EXECUTE ON FUNCTION tidemark.subject_keys, tidemark.wrapping_key, tidemark.forget_keys,
        tidemark.forget_key, tidemark.rewrap_keys, tidemark.trust_wrapping_key FROM %I, %I', worker, publisher);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tidemark.subject_keys, tidemark.wrapping_key TO %I, %I', appender,
        process);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tidemark.forget_key, tidemark.rewrap_keys, tidemark.wrapping_key,
        tidemark.trust_wrapping_key TO %I', operator);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tidemark.forget_keys TO %I', operator);

    -- Archives are the operator's alone too.
    EXECUTE format('REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON tidemark.archives FROM %I', worker);
    EXECUTE format('REVOKE EXECUTE ON FUNCTION tidemark.archive, tidemark.restore FROM %I, %I', worker, publisher);
    EXECUTE format('GRANT EXECUTE ON FUNCTION tidemark.archive, tidemark.restore TO %I', operator);
    -- Appenders may ask for them.
    EXECUTE format('GRANT EXECUTE ON FUNCTION tidemark.ask_restore TO %I', appender);

    -- Workers and operators repair a copy: it changes nothing in a database that lacks nothing.
    EXECUTE format('REVOKE EXECUTE ON FUNCTION tidemark.repair_copy FROM %I', publisher);
    -- Appends call it as the owner.
    EXECUTE format('REVOKE EXECUTE ON FUNCTION tidemark.hold_back FROM %I, %I', worker, publisher);

    -- Operator: long transactions and the state of autovacuum. Only some roles may grant that.
    BEGIN
        EXECUTE format('GRANT pg_read_all_stats TO %I', operator);
    EXCEPTION WHEN insufficient_privilege THEN
        RAISE NOTICE '% may not see the sessions of others: grant it pg_read_all_stats as a superuser', operator;
    END;
END
$roles$;

COMMIT;
