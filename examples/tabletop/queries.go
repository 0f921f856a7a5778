package tabletop

// The tables as [Verify] reads them: the key first, then the columns of the row. Each query scans
// its table once and takes no row locks.
const (
	queryCampaigns = `SELECT campaign_id, campaign_id, coalesce(name, ''), coalesce(doc->>'system', ''),
		coalesce(doc->>'theme', ''), coalesce(status, ''),
			coalesce(doc->>'forked_from', ''), (doc->>'participants')::bigint, (doc->>'characters')::bigint,
				(doc->>'sessions')::bigint,
			(doc->>'events')::bigint
		FROM tidemark_views.campaigns`

	queryParticipants = `SELECT campaign_id, participant_id, name, role, coalesce(seat, 0), joined_at, left_at
		FROM tidemark_views.participants`

	queryCharacters = `SELECT campaign_id, key, doc->>'participant_id', name, doc->>'class', (doc->>'level')::integer,
		hit_points,
			(doc->>'max_hit_points')::integer
		FROM tidemark_views.characters`

	querySessions = `SELECT campaign_id, session_id, number, scenes, title, coalesce(recap, ''), started_at, ended_at
		FROM tidemark_views.sessions`

	queryActiveSessions = `SELECT campaign_id, campaign_id, session_id, coalesce(scene_id, ''),
		coalesce(scene_title, ''), started_at
		FROM tidemark_views.active_sessions`

	queryInvites = `SELECT campaign_id, invite_id, recipient, status, coalesce(participant_id, ''), created_at,
		settled_at FROM tidemark_views.invites`

	queryPlayers = `SELECT '', key, (doc->>'invites')::bigint, (doc->>'joined')::bigint,
		array_to_string(ARRAY(SELECT concat_ws(' ', t->>'campaign_id', t->>'role')
			FROM jsonb_array_elements(nullif(doc->'tables', 'null')) WITH ORDINALITY AS r (t, n) ORDER BY n), ', ')
		FROM tidemark_views.players`

	queryLeaderboard = `SELECT '', player, joined, led, latest_at FROM tidemark_views.leaderboard`
)
