// Package tabletop is a worked example: the campaigns of a tabletop game, from the events to the
// read models.
//
// It holds everything an application brings along, and nothing that Tidemark does by itself:
//
//   - the events and their payloads (events.go) and what each is for (catalogue.go);
//   - a [Generator] that plays many campaigns at once, always by the rules, the same way for the
//     same seed, and a [Load] that
//     appends what it decides;
//   - projections of all three kinds: documents (campaigns, characters), typed handlers
//     (participants), and SQL files (sessions,
//     invites) that the stock worker runs as they are, with TIDEMARK_PROJECTIONS_DIR=examples/tabletop/projections;
//   - a second, independent way to the same answers: [Verify] folds the whole journal in plain Go
//     and compares every row.
//
// The programs cmd/worker and cmd/loadgen beside it run the two halves; `make demo` runs both and
// checks the outcome.
package tabletop
