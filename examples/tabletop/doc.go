// Package tabletop is a worked example: the campaigns of a tabletop game, from the events to the
// read models.
//
// It holds everything that an application contributes, and nothing that Tidemark does by itself:
//
//   - the events and their payloads (events.go), and their intents (catalogue.go);
//   - a [Generator] that plays many campaigns at once, always by the rules and reproducibly for a
//     given seed, and a [Load] that appends its decisions;
//   - projections of all three kinds: documents (campaigns, characters), typed handlers
//     (participants), and SQL files (sessions, invites) that the stock worker runs unchanged with
//     TIDEMARK_PROJECTIONS_DIR=examples/tabletop/projections;
//   - projections across campaigns: a page for each person (players) and the leaderboard, an SQL file;
//   - a second, independent computation of the same rows: [Verify] folds the whole journal in plain
//     Go and compares every row.
//
// The programs cmd/worker and cmd/loadgen run the two halves. `make demo` runs both and checks the
// result.
package tabletop
