// Package lake is a sink that writes events to Parquet files in a folder, as a Delta Lake table
// that DuckDB, Spark, Trino and Polars read. The files lie in day=2026-11-26/type=order_placed:
// the day of recorded_at in UTC, and the event's type.
//
// An event is in the table once, whatever is sent again, by however many processes. A batch's files
// become part of the table by one entry of its log, which is created exclusively. Before that the
// sink leaves out events that the table already has, as the log says up to the entry before. If
// another process takes the entry's number first, the sink reads that entry and decides again.
// An event is known by its position, its campaign and its id.
//
// The sink merges small files after it has written a batch, writes checkpoints of the log, and
// deletes files that are no longer part of the table after a time, so that readers can finish.
//
// It is a separate module with its own worker in cmd/worker, because of the Parquet library.
//
// Stability: as of version 1, no setting changes its meaning or its default.
package lake
