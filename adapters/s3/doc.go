// Package s3 keeps the archive of campaigns in a bucket of S3, or of a store with its API.
//
// An object is written with one request that has the content's MD5, so it is there complete or not at
// all. Writing it again changes nothing. A request is tried three times. Credentials come from the
// environment as AWS's own programs find them: variables, a profile, or the role of the pod, container
// or machine. They are never part of the URL.
//
// It is a separate module with its own worker in cmd/worker and operators' commands in cmd/tidemark,
// because of the client's dependencies. A program of your own sets worker.Options.Archives to
// archive.Kinds{"s3": s3.Open}.
//
// Stability: as of version 1, no setting changes its meaning or its default.
package s3
