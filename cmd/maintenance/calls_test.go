package main

import (
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/web/api"
)

// callsOf says by which calls of the API, by their names in openapi.yaml, one sees and does what a command shows and does. "-" and why, where there is none.
func callsOf() map[string]string {
	return map[string]string{
		"status":                   "getStatus",
		"doctor":                   "getDoctor",
		"lag":                      "listLag",
		"audit":                    "listLog",
		"outbox list":              "listQueueEntries",
		"outbox report":            "listQueue",
		"outbox requeue":           "requeueEvent",
		"outbox requeue-dead":      "startBulk previewBulk",
		"deferred list":            "listDeferred",
		"deferred show":            "getDeferred",
		"deferred stats":           "getDeferredStats",
		"deferred log":             "listDeferredLog",
		"deferred requeue":         "requeueDeferred startBulk previewBulk",
		"deferred retry":           "retryDeferred",
		"deferred resolve":         "resolveDeferred startBulk previewBulk",
		"campaign show":            "getCampaign listCampaigns listEvents getEvent",
		"campaign as-of":           "getAsOf",
		"campaign diff":            "getDiff",
		"campaign why":             "getWhy",
		"campaign replay":          "replayCampaign replayGroup",
		"campaign pause":           "pauseCampaign",
		"campaign resume":          "resumeCampaign",
		"projection list":          "listProjections",
		"projection verify":        "verifyProjection verifyCampaign replayCampaign",
		"projection backfill":      "backfillProjection",
		"projection pause":         "pauseProjection",
		"projection resume":        "resumeProjection",
		"projection rebuild":       "startRebuild swapRebuild pauseRebuild resumeRebuild abortRebuild listRebuilds",
		"projection rollback":      "rollbackProjection",
		"projection remove":        "removeProjection",
		"group list":               "listGroups listPauses",
		"group pause":              "pauseGroup",
		"group resume":             "resumeGroup",
		"group remove":             "removeGroup",
		"gaps detect":              "listGaps",
		"gaps repair":              "repairGap repairGaps",
		"publisher list":           "listPublishers getPublisherLag",
		"publisher show":           "getPublisher",
		"publisher log":            "listLog",
		"publisher parked list":    "listParked",
		"publisher parked show":    "listParked getEvent",
		"publisher pause":          "pausePublisher",
		"publisher resume":         "resumePublisher",
		"publisher reset":          "resetPublisher",
		"publisher parked retry":   "retryParked startBulk previewBulk",
		"publisher parked resolve": "resolveParked startBulk previewBulk",
		"publisher test-send":      "testSend",
		"publisher replay":         "republish",
		"events import":            "- it appends, which is the application's: the API's credentials are operators', and what they appended could never be taken back",
		"events export":            "exportEvents",
		"events query":             "queryEvents",
		"worker list":              "listWorkers",
		"worker drain":             "drainWorker",
		"worker undrain":           "undrainWorker",
		"operation list":           "listOperations",
		"operation show":           "getOperation listOperationItems",
		"operation abort":          "abortOperation",
		"token list":               "listTokens",
		"token create":             "createToken",
		"token revoke":             "revokeToken",
	}
}

// onlyCalls are the calls that no command stands for, and why.
func onlyCalls() map[string]string {
	return map[string]string{
		"getDescription": "the API's own",
		"getMe":          "the API's own: a command has no identity but the database's",
		"listLeases":     "in campaign show, lease by lease",
	}
}

func TestNeitherTheCommandLineNorTheAPIGrowsAlone(t *testing.T) {
	t.Parallel()
	there, meant := map[string]bool{}, map[string]bool{}
	for _, route := range new(api.API).Routes() {
		there[route.OperationID] = true
	}
	all := leaves(newRoot(environment("", false, nil, nil)))
	for command, calls := range callsOf() {
		if all[command] == nil {
			t.Errorf("there is no command %q", command)
		}
		if strings.HasPrefix(calls, "- ") {
			continue
		}
		for _, call := range strings.Fields(calls) {
			if meant[call] = true; !there[call] {
				t.Errorf("the API has no call %s for command %q", call, command)
			}
		}
	}
	for command := range all {
		if callsOf()[command] == "" {
			t.Errorf("command %q: say here which calls of the API do the same, or why there is none", command)
		}
	}
	for call := range there {
		if _, only := onlyCalls()[call]; only == meant[call] {
			t.Errorf("call %s: name the command that does the same, or say why there is none; not both", call)
		}
	}
	for call := range onlyCalls() {
		if !there[call] {
			t.Errorf("there is no call %s", call)
		}
	}
}
