-- Keeps other roles from taking advisory locks with 64-bit keys, which could block all appends and
-- all workers. Run it as a superuser after roles.sql:
--
--   tidemark migrate roles --advisory-locks | psql "$URL" -v ON_ERROR_STOP=1
--
-- It applies to one database. Applications that take such locks themselves (migration tools and job
-- queues do) need a GRANT. Locks with two 32-bit keys are not affected. tidemark.role_prefix is as
-- in roles.sql. GRANT EXECUTE … TO PUBLIC reverts it.
DO $locks$
DECLARE
    prefix CONSTANT text := coalesce(nullif(pg_catalog.current_setting('tidemark.role_prefix', true), ''), 'tidemark');
    name text;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    FOREACH name IN ARRAY ARRAY[
        'pg_advisory_lock', 'pg_advisory_lock_shared', 'pg_try_advisory_lock', 'pg_try_advisory_lock_shared',
        'pg_advisory_xact_lock', 'pg_advisory_xact_lock_shared', 'pg_try_advisory_xact_lock',
        'pg_try_advisory_xact_lock_shared']
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION pg_catalog.%I(bigint) FROM PUBLIC', name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION pg_catalog.%I(bigint) TO %I, %I, %I',
            name, prefix || '_owner', prefix || '_worker', prefix || '_publisher');
    END LOOP;
END
$locks$;
