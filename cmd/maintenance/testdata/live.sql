-- A worker that stays alive however long the test takes.
UPDATE tidemark.workers SET seen_at = now() + interval '50 seconds';
