package journal

// queryAppend takes the campaign's advisory lock, the writer floor's lock, then inserts; everything else it does is a probe of one
// index. $4 says that the events have been checked. See migrations/00002_work.sql.
const queryAppend = `SELECT seq, "position", event_id, duplicate FROM tidemark.append($1, $2::jsonb, $3, $4)`

// queryAppendAll takes the advisory locks of all campaigns in one order before it appends to the first.
const queryAppendAll = `SELECT campaign_id, seq, "position", event_id, duplicate FROM tidemark.append_all($1::jsonb, $2)`

const eventColumns = `campaign_id, seq, "position", event_id, event_type, event_version, intent::text, aggregate_type, aggregate_id, actor, tags,
	payload, metadata, occurred_at, recorded_at`

// queryCampaignPage reads a page of the primary key. It takes no lock.
const queryCampaignPage = `SELECT ` + eventColumns + ` FROM tidemark.journal WHERE campaign_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`

// queryFloor reads one sequence and the lock table; both are in memory.
const queryFloor = `SELECT tidemark.read_floor()`

// queryJournalPage reads a page of the index on position. It must be sent after queryFloor has answered $2.
const queryJournalPage = `SELECT ` + eventColumns + ` FROM tidemark.journal WHERE "position" > $1 AND "position" <= $2 ORDER BY "position" LIMIT $3`

// queryGet probes the primary key. Its order leaves the planner no other index, also while it believes the table to be empty.
const queryGet = `SELECT ` + eventColumns + ` FROM tidemark.journal WHERE campaign_id = $1 AND seq BETWEEN $2 AND $2 ORDER BY seq LIMIT 1`

// queryFind probes the unique index on (campaign_id, event_id).
const queryFind = `SELECT ` + eventColumns + ` FROM tidemark.journal WHERE campaign_id = $1 AND event_id = $2`

// queryReadGroup reads, by one range of the primary key for each campaign, what a worker applies next. The ranges are read one after the other, so that
// the rows come in order, and only until the limit on events ($4) is reached; of these the rows up to the limit on bytes ($5) are sent. payload_bytes
// keeps it from looking at payloads that are not sent. It takes no lock.
const queryReadGroup = `SELECT ord, payload_bytes, seq, "position", event_id, event_type, event_version, intent::text, aggregate_type, aggregate_id, actor, tags,
		payload, metadata, occurred_at, recorded_at
	FROM (
		SELECT c.ord, j.*, sum(j.payload_bytes) OVER (ROWS UNBOUNDED PRECEDING) - j.payload_bytes AS before
		FROM unnest($1::text[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS c (campaign_id, after, until, ord)
		CROSS JOIN LATERAL (
			SELECT j.seq, j."position", j.event_id, j.event_type, j.event_version, j.intent, j.aggregate_type, j.aggregate_id, j.actor, j.tags,
				j.payload, j.metadata, j.payload_bytes, j.occurred_at, j.recorded_at
			FROM tidemark.journal j
			WHERE j.campaign_id = c.campaign_id AND j.seq > c.after AND j.seq <= c.until
			ORDER BY j.seq
			LIMIT $4
		) j
		LIMIT $4
	) e
	WHERE before < $5`
