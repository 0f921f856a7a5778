package inbox

// Prune is prune, for tests.
var Prune = prune //nolint:gochecknoglobals // for tests
