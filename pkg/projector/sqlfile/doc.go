// Package sqlfile reads projections from SQL files: a projection's tables, and the statements that
// it runs for each type of event. Such files need no compiler; the stock worker applies those of a
// folder.
//
//	-- projection: sessions
//	-- version: 1
//	CREATE TABLE sessions (campaign_id text PRIMARY KEY, name text NOT NULL);
//
//	-- on: session_opened
//	INSERT INTO sessions VALUES (event.campaign_id, event.payload->>'name');
//
// [LoadDir] and [Load] find mistakes when they read a file. The projector finds those that only
// Postgres can see when it registers the projection. Each mistake is an [*Error] with file and
// line. The package owns no tables.
//
// Stability: as of version 1, a file keeps its meaning.
package sqlfile
