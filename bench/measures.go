package main

import (
	"github.com/tidemark-go/tidemark/bench/internal/appends"
	"github.com/tidemark-go/tidemark/bench/internal/applies"
	"github.com/tidemark-go/tidemark/bench/internal/erasures"
	"github.com/tidemark-go/tidemark/bench/internal/harness"
	"github.com/tidemark-go/tidemark/bench/internal/latency"
	"github.com/tidemark-go/tidemark/bench/internal/memory"
	"github.com/tidemark-go/tidemark/bench/internal/publishes"
	"github.com/tidemark-go/tidemark/bench/internal/scale"
)

// Measures returns all measures in the order in which they run.
func Measures() []harness.Measure {
	return []harness.Measure{
		{
			Name:  "dense",
			About: "many events a campaign, against a bare loop without a queue",
			Run:   applies.MeasureDense,
		},
		{
			Name:  "dense_singly",
			About: "the same, with a work item for each event",
			Run:   applies.MeasureDenseSingly,
		},
		{
			Name:  "sparse",
			About: "one event a campaign, against a bare loop without a queue",
			Run:   applies.MeasureSparse,
		},
		{
			Name:  "river",
			About: "the same UPSERT, against River",
			Run:   applies.MeasureRiver,
		},
		{
			Name:  "watermill",
			About: "against watermill-sql's drain",
			Run:   applies.MeasureWatermill,
		},
		{
			Name:  "append",
			About: "tidemark.append, against a bare INSERT into the journal",
			Run:   appends.MeasureAppend,
		},
		{
			Name:  "conditions",
			About: "appends on conditions, against appends without and against SERIALIZABLE",
			Run:   appends.MeasureConditions,
		},
		{
			Name:  "conditions_unused",
			About: "appends without tags, against the same without what is done for conditions",
			Run:   appends.MeasureUntagged,
		},
		{
			Name:  "conditions_size",
			About: "a condition over many events that have tags, against one over few",
			Run:   appends.MeasureConditionSize,
		},
		{
			Name:  "claim",
			About: "claiming with a long queue, against claiming with a short one",
			Run:   scale.MeasureClaim,
		},
		{
			Name:  "status",
			About: "figures of a long queue with many pairs that are behind, against a short one with few",
			Run:   scale.MeasureStatus,
		},
		{
			Name:  "gaps",
			About: "looking for gaps among many campaigns, against among few",
			Run:   scale.MeasureGaps,
		},
		{
			Name:  "big",
			About: "a journal of many events, against one of a million: bytes an event, and times",
			Run:   scale.MeasureBig,
		},
		{
			Name:  "big_bytes",
			About: "bytes an event with UUIDs for campaigns, and with ids of events that callers give",
			Run:   scale.MeasureBigBytes,
		},
		{
			Name:  "held_xmin",
			About: "appending and applying while foreign snapshots are open for -held, against before",
			Run:   scale.MeasureHeld,
		},
		{
			Name:  "pages",
			About: "each of the operators' pages with millions of pairs that are behind, against with thousands",
			Run:   scale.MeasurePages,
		},
		{
			Name:  "scheduled_fire",
			About: "making appends that are due, against 5,000 a second",
			Run:   scale.MeasureScheduledFire,
		},
		{
			Name:  "scheduled_pending",
			About: "making due appends among many pending ones, against among few",
			Run:   scale.MeasureScheduledPending,
		},
		{
			Name:  "archive",
			About: "a million events to an archive and back, against 50,000 a second; and appends meanwhile",
			Run:   scale.MeasureArchive,
		},
		{
			Name:  "archive_memory",
			About: "the worker's memory while it builds read models of archived campaigns, against a quarter of them",
			Run:   memory.MeasureArchive,
		},
		{
			Name:  "memory",
			About: "the worker's memory with a long backlog",
			Run:   memory.MeasureMemory,
		},
		{
			Name:  "mixture",
			About: "the worker's memory while much goes on at once",
			Run:   memory.MeasureMixture,
		},
		{
			Name:  "streams_memory",
			About: "the worker's memory with 1,000 idle streams of events",
			Run:   memory.MeasureStreams,
		},
		{
			Name:  "publish",
			About: "the relay, against a bare stream of the journal",
			Run:   publishes.MeasurePublish,
		},
		{
			Name:  "publish_brokers",
			About: "the relay to brokers, against their clients alone",
			Run:   publishes.MeasureBrokers,
		},
		{
			Name:  "publish_forwarder",
			About: "the relay, against watermill-sql's forwarder",
			Run:   publishes.MeasureForwarder,
		},
		{
			Name:  "publish_append",
			About: "appending beside a relay with many pairs, against one with a single pair",
			Run:   publishes.MeasureBeside,
		},
		{
			Name:  "publish_latency",
			About: "from append to a sink, against two bare commits",
			Run:   latency.MeasureSeen,
		},
		{
			Name:  "isolation",
			About: "the healthy part while a projection fails in some campaigns, against nothing to do there",
			Run:   applies.MeasureIsolation,
		},
		{
			Name:  "isolation_steady",
			About: "the healthy part while pairs that have failed are tried again and again, against none failing",
			Run:   applies.MeasureSteady,
		},
		{
			Name:  "rebuild",
			About: "a rebuild of one event a campaign, against applying them live; and live work beside one, against alone",
			Run:   applies.MeasureRebuild,
		},
		{
			Name:  "rebuild-dense",
			About: "the same with many events a campaign",
			Run:   applies.MeasureRebuildDense,
		},
		{
			Name:  "proof",
			About: "live work with the hash of ids, against without; and comparing the checkpoints with the journal",
			Run:   applies.MeasureProof,
		},
		{
			Name:  "across_dense",
			About: "documents across campaigns, against a bare loop; and four partitions against one",
			Run:   applies.MeasureAcross,
		},
		{
			Name:  "across_isolation",
			About: "projections across campaigns that fail in some keys, against nothing to do there",
			Run:   applies.MeasureAcrossIsolation,
		},
		{
			Name:  "process",
			About: "events that each lead to another, until both are applied, against a bare loop without a queue",
			Run:   applies.MeasureProcess,
		},
		{
			Name:  "latency",
			About: "from append to visible, against two bare commits",
			Run:   latency.MeasureLatency,
		},
		{
			Name:  "wait_latency",
			About: "from append to the end of a wait for it, against to visible",
			Run:   latency.MeasureWait,
		},
		{
			Name:  "across_latency",
			About: "from append to visible across campaigns, against two bare commits",
			Run:   latency.MeasureAcross,
		},
		{
			Name:  "replay_latency",
			About: "the same while a key is replayed over half a million events, against nothing to replay",
			Run:   latency.MeasureReplay,
		},
		{
			Name:  "erasure",
			About: "what a dump has left of a thousand erased subjects, under load and kills, against nothing",
			Run:   erasures.MeasureErasure,
		},
	}
}
