// Package file is a sink that appends events to a file, or to standard output, as lines of JSON.
//
// With the formats envelope and cloudevents a line is {"attributes": {…}, "body": …}, with raw and
// cloudevents_structured it is the body. A batch is written by one call and, on a file, synced to the
// disk before it counts as published; one that cannot be written as a whole is taken back. A torn last
// line, as a crash leaves it, is cut off when the file is opened: it was never published.
//
// The file is moved aside as NAME-20260102T150405.000000000Z.ext before it grows beyond max_size or
// gets older than max_age. A file belongs to one process: where several write, put {host} or {pid}
// into the path. Standard output that is not read blocks the sink, and is the only thing that makes
// it ignore its context.
package file
