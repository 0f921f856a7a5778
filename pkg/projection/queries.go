package projection

// The statements use the primary key, once per document. A campaign's rows are written only under
// its lease, so inserts do not conflict.
const (
	queryLoadDocuments = `SELECT k.n, d.doc FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (campaign_id, key, n)
		CROSS JOIN LATERAL (SELECT doc FROM %s d WHERE d.campaign_id = k.campaign_id AND d.key = k.key OFFSET 0) d`
	queryGetDocument     = `SELECT doc FROM %s WHERE campaign_id = $1 AND key = $2`
	queryInsertDocuments = `INSERT INTO %s (campaign_id, key, doc) SELECT u.campaign_id, u.key, u.doc::jsonb
		FROM unnest($1::text[], $2::text[], $3::text[]) AS u (campaign_id, key, doc)`
	queryUpdateDocuments = `UPDATE %s d SET doc = u.doc::jsonb FROM unnest($1::text[], $2::text[],
		$3::text[]) AS u (campaign_id, key, doc)
		WHERE d.campaign_id = u.campaign_id AND d.key = u.key`
	queryDeleteDocuments = `DELETE FROM %s d USING unnest($1::text[], $2::text[]) AS u (campaign_id, key)
		WHERE d.campaign_id = u.campaign_id AND d.key = u.key`
)

// The statements of processes. queryReact is in migrations/functions/scheduled.sql. queryCause probes two
// indexes.
const (
	queryReact = `SELECT tidemark.react($1, $2::text[], $3::text[], $4::timestamptz[], $5::text[], $6::bigint[],
		$7::text[])`
	queryCause = `SELECT event_type, coalesce(metadata, '{}') FROM tidemark.find_event($1, $2::uuid)`
)

// The same across campaigns. Their rows are written only by the holder of the key's partition.
const (
	queryLoadAcross = `SELECT k.n, d.doc FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (campaign_id, key, n)
		CROSS JOIN LATERAL (SELECT doc FROM %s d WHERE d.key = k.key OFFSET 0) d`
	queryGetAcross    = `SELECT doc FROM %s WHERE $1::text IS NOT NULL AND key = $2`
	queryInsertAcross = `INSERT INTO %s (key, doc) SELECT u.key, u.doc::jsonb
		FROM unnest($1::text[], $2::text[], $3::text[]) AS u (campaign_id, key, doc)`
	queryUpdateAcross = `UPDATE %s d SET doc = u.doc::jsonb FROM unnest($1::text[], $2::text[],
		$3::text[]) AS u (campaign_id, key, doc) WHERE d.key = u.key`
	queryDeleteAcross = `DELETE FROM %s d USING unnest($1::text[], $2::text[]) AS u (campaign_id, key)
		WHERE d.key = u.key`
)
