-- A worker that is alive for a while.
UPDATE tidemark.workers SET seen_at = now() + interval '50 seconds';
