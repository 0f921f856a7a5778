// Package log is a sink that writes events to the worker's log, for trying out: one record each, with
// its body if wanted. A log is not a place to keep events in: its readers may lose some, and a
// record counts as published once the log's handler has been called.
package log
