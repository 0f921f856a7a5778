package feed

// eventColumns leaves out what most events have in common: each value is converted, sent and read.
const eventColumns = eventHead + `payload, metadata` + eventTail

const (
	eventHead = `campaign_id, seq, "position", event_id, event_type, nullif(event_version, 1),
	nullif(intent, 'projection_and_replay')::text, aggregate_type, aggregate_id, actor, tags, `
	eventTail = `, nullif(occurred_at, recorded_at), recorded_at`
)

// queryCampaignPage reads a page of the primary key, until payloads come to $4 bytes. It takes no lock.
const queryCampaignPage = `SELECT ` + eventColumns + ` FROM (
		SELECT j.*, sum(j.payload_bytes) OVER (ORDER BY j.seq ROWS UNBOUNDED PRECEDING) - j.payload_bytes AS before
		FROM (SELECT * FROM tidemark.journal WHERE campaign_id = $1 AND seq > $2 ORDER BY seq LIMIT $3) j
	) e WHERE before < $4 ORDER BY seq`

// queryFloor reads one sequence and the lock table; both are in memory.
const queryFloor = `SELECT tidemark.read_floor()`

// queryJournalPage reads a page of the index on position. It must be sent after queryFloor has answered $2.
const queryJournalPage = `SELECT ` + eventColumns + ` FROM tidemark.journal WHERE "position" > $1 AND "position" <= $2
	ORDER BY "position" LIMIT $3`

// queryGet probes the primary key. Its order leaves the planner no other index, also while it
// believes the table to be empty.
const queryGet = `SELECT ` + eventColumns + ` FROM tidemark.journal WHERE campaign_id = $1 AND seq BETWEEN $2 AND $2
	ORDER BY seq LIMIT 1`

// queryFind probes the unique index on (campaign_id, event_id).
const queryFind = `SELECT ` + eventColumns + ` FROM tidemark.journal WHERE campaign_id = $1 AND event_id = $2`

// groupCampaigns is the campaigns named ($1), past the seqs named ($2) up to those named ($3); or,
// where $1 and $2 are NULL, those that a claim before it on the connection has leased, past their
// checkpoints. Without $3 there is no bound.
const groupCampaigns = `unnest(coalesce($1::text[], tidemark.claimed_campaigns()),
	coalesce($2::bigint[], tidemark.claimed_checkpoints()), $3::bigint[])`

// queryReadHeads finds the last event of each campaign's range by one probe of the primary key. It takes no lock.
const queryReadHeads = `SELECT c.ord, j.seq
	FROM ` + groupCampaigns + ` WITH ORDINALITY AS c (campaign_id, after, until, ord)
	CROSS JOIN LATERAL (
		SELECT j.seq FROM tidemark.journal j
		WHERE j.campaign_id = c.campaign_id AND j.seq > c.after AND j.seq <= coalesce(c.until, 9223372036854775807)
		ORDER BY j.seq DESC
		LIMIT 1
	) j
	ORDER BY c.ord`

// queryReadHashes reads one range of the primary key for each campaign, until the limit on events
// ($4) is reached, and answers no event: how many there are of each, and the hash of their ids. It
// takes no lock.
const queryReadHashes = `SELECT e.ord, count(*), bit_xor(e.hash)
	FROM (
		SELECT c.ord, uuid_hash_extended(j.event_id, 0) AS hash
		FROM ` + groupCampaigns + ` WITH ORDINALITY AS c (campaign_id, after, until, ord)
		CROSS JOIN LATERAL (
			SELECT j.event_id FROM tidemark.journal j
			WHERE j.campaign_id = c.campaign_id AND j.seq > c.after AND j.seq <= coalesce(c.until, 9223372036854775807)
			ORDER BY j.seq
			LIMIT $4
		) j
		LIMIT $4
	) e
	GROUP BY e.ord ORDER BY e.ord`

// groupColumns is eventColumns without the campaign, which the caller knows.
const groupColumns = `ord, payload_bytes, seq, "position", event_id, event_type, nullif(event_version, 1),
	nullif(intent, 'projection_and_replay')::text, aggregate_type, aggregate_id, actor, ` + documents + `occurred_at,
	recorded_at), recorded_at`

// groupRanges reads one range of the primary key for each campaign, one after the other, so that
// the rows come in order, and only until the limit on events ($4) is reached.
const groupRanges = groupCampaigns + ` WITH ORDINALITY AS c (campaign_id, after, until, ord)
		CROSS JOIN LATERAL (
			SELECT j.seq, j."position", j.event_id, j.event_type, j.event_version, j.intent, j.aggregate_type, j.aggregate_id,
				j.actor, j.tags,
				j.payload, j.metadata, j.payload_bytes, j.occurred_at, j.recorded_at
			FROM tidemark.journal j
			WHERE j.campaign_id = c.campaign_id AND j.seq > c.after AND j.seq <= coalesce(c.until, 9223372036854775807)
			ORDER BY j.seq
			LIMIT $4
		) j
		LIMIT $4`

// queryReadGroup reads what a worker applies next, up to the limit on bytes ($5). payload_bytes
// keeps it from looking at payloads that are not sent. It takes no lock.
const queryReadGroup = `SELECT ` + groupColumns + `
	FROM (
		SELECT c.ord, j.*, sum(j.payload_bytes) OVER (ROWS UNBOUNDED PRECEDING) - j.payload_bytes AS before
		FROM ` + groupRanges + `
	) e
	WHERE before < $5`

// queryReadSmall is queryReadGroup without the limit on bytes, which costs a quarter of the read:
// every row is copied aside for the running sum.
const queryReadSmall = `SELECT ` + groupColumns + ` FROM ` + groupRanges

// queryReadCampaigns walks the primary key from one place to the end of a campaign, through all
// campaigns between. What is not for projections is left out. It takes no lock.
const queryReadCampaigns = `SELECT ` + eventColumns + ` FROM tidemark.journal
	WHERE (campaign_id, seq) > ($1::text, $2::bigint) AND campaign_id <= $3 AND intent = 'projection_and_replay'
	ORDER BY campaign_id, seq LIMIT $4`

// queryReadCampaignsOf is queryReadCampaigns for events of some types.
const queryReadCampaignsOf = `SELECT ` + eventColumns + ` FROM tidemark.journal
	WHERE (campaign_id, seq) > ($1::text, $2::bigint) AND campaign_id <= $3 AND intent = 'projection_and_replay'
		AND event_type = ANY ($5::text[])
	ORDER BY campaign_id, seq LIMIT $4`
