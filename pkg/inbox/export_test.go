package inbox

// Prune exports prune for tests.
var Prune = prune //nolint:gochecknoglobals // for tests
