package main

// Measures lists all of them, in the order in which they run.
func Measures() []Measure {
	return []Measure{
		{"dense", "many events a campaign, against a bare loop without a queue", measureDense},
		{"dense_singly", "the same, with a work item for each event", measureDenseSingly},
		{"sparse", "one event a campaign, against a bare loop without a queue", measureSparse},
		{"river", "the same UPSERT, against River", measureRiver},
		{"watermill", "against watermill-sql's drain", measureWatermill},
		{"append", "tidemark.append, against a bare INSERT into the journal", measureAppend},
		{"conditions", "appends on conditions, against appends without and against SERIALIZABLE", measureConditions},
		{"conditions_unused", "appends without tags, against the same without what is done for conditions", measureUntagged},
		{"conditions_size", "a condition over many events that have tags, against one over few", measureConditionSize},
		{"claim", "claiming with a long queue, against claiming with a short one", measureClaim},
		{"status", "figures of a long queue with many deferred pairs, against a short one with few", measureStatus},
		{"gaps", "looking for gaps among many campaigns, against among few", measureGaps},
		{"pages", "each of the operators' pages with millions of deferred pairs, against with thousands", measurePages},
		{"memory", "the worker's memory with a long backlog", measureMemory},
		{"mixture", "the worker's memory while much goes on at once", measureMixture},
		{"publish", "the relay, against a bare stream of the journal", measurePublish},
		{"publish_brokers", "the relay to brokers, against their clients alone", measureBrokers},
		{"publish_forwarder", "the relay, against watermill-sql's forwarder", measureForwarder},
		{"publish_append", "appending beside a relay with many pairs, against one with a single pair", measureBeside},
		{"publish_latency", "from append to a sink, against two bare commits", measureSeen},
		{"isolation", "the healthy part while a projection fails in some campaigns, against none failing", measureIsolation},
		{
			"isolation_steady", "the healthy part while pairs that have failed are tried again and again, against none failing",
			measureSteady,
		},
		{
			"rebuild", "a rebuild of one event a campaign, against applying them live; and live work beside one, against alone",
			measureRebuild,
		},
		{"rebuild-dense", "the same with many events a campaign", measureRebuildDense},
		{
			"proof", "live work with the hash of ids, against without; and comparing the checkpoints with the journal",
			measureProof,
		},
		{"travel", "a late event of a long campaign with snapshots, against an early one", measureTravel},
		{"latency", "from append to visible, against two bare commits", measureLatency},
	}
}
