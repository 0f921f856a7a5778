// Package matrix tests where what removes events meets everything else: each act that erases, seals,
// archives, restores or retains, in each state that a run of it can be in, with each feature that
// holds events or texts of them.
//
// A cell is one act, one state and one feature. It has campaigns and persons of its own, whose texts
// name it, so that a text that is found says which cell has failed. The cells are generated. A run
// plants the cells of a world, does the act, and compares the journal, the archive and all read models
// with what the test remembers. Then all persons who are to be forgotten are erased, and pg_dump, the
// statistics of the planner, the archive's objects, the lake and the logs are searched for their texts.
//
// go test runs every pair of act, state and feature, with a world an act. With -args -all, as in
// `make test-matrix`, each cell is run, with a world for each act and state. The places at which
// processes are killed are chosen at random.
package matrix
