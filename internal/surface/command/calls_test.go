package command

import (
	"os"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/operator/acts"
	"github.com/tidemark-go/tidemark/internal/surface/api"
)

// callsOf returns for each command the API calls, named as in openapi.yaml, that show or do the
// same. A command without one has "-" and the reason.
func callsOf() map[string]string {
	return map[string]string{
		"status":                    "getStatus",
		"doctor":                    "getDoctor",
		"lag":                       "listLag",
		"audit":                     "listLog",
		"outbox list":               "listQueueEntries",
		"outbox report":             "listQueue",
		"outbox requeue":            "requeueEvent",
		"failed list":               "listFailed",
		"failed show":               "getFailed",
		"failed stats":              "listFailureCauses",
		"failed log":                "listFailedLog",
		"failed requeue":            "requeueFailed requeueManyFailed",
		"failed resolve":            "resolveFailed resolveManyFailed",
		"failed unresolve":          "unresolveFailed",
		"failed resolutions":        "listResolutions",
		"campaign list":             "listCampaigns",
		"campaign show":             "getCampaign listCampaigns listEvents getEvent",
		"campaign as-of":            "getAsOf",
		"campaign diff":             "getDiff",
		"campaign why":              "getWhy",
		"campaign replay":           "replayCampaign",
		"campaign repair-gap":       "repairGap",
		"campaign erase":            "eraseCampaign",
		"campaign archive":          "archiveCampaign archiveClosed",
		"campaign restore":          "restoreCampaign restoreObjects",
		"subject erase":             "eraseSubjects",
		"erase list":                "listErasures",
		"erase abandon":             "abandonErasure",
		"campaign policies":         "listPolicies",
		"campaign requests":         "listRestoreRequests",
		"erase verify":              "- it needs the certificate, which whoever erased has",
		"campaign pause":            "pauseCampaign",
		"campaign resume":           "resumeCampaign",
		"projection list":           "listProjections",
		"projection verify":         "verifyProjection verifyCampaign replayCampaign",
		"projection pause":          "pauseProjection",
		"projection resume":         "resumeProjection",
		"projection rebuild":        "startRebuild listRebuilds",
		"projection swap-rebuild":   "swapRebuild",
		"projection pause-rebuild":  "pauseRebuild",
		"projection resume-rebuild": "resumeRebuild",
		"projection abort-rebuild":  "abortRebuild",
		"projection rollback":       "rollbackProjection",
		"projection remove":         "removeProjection",
		"group list":                "listGroups listPauses",
		"group pauses":              "listPauses",
		"group replay":              "replayGroup",
		"group pause":               "pauseGroup",
		"group resume":              "resumeGroup",
		"group remove":              "removeGroup",
		"gaps detect":               "listGaps",
		"gaps repair":               "repairGaps",
		"publisher list":            "listPublishers getPublisherLag",
		"publisher show":            "getPublisher",
		"publisher ghosts":          "listGhosts",
		"publisher log":             "listPublisherLog",
		"publisher parked list":     "listParked",
		"publisher parked show":     "listParked getEvent",
		"publisher pause":           "pausePublisher",
		"publisher resume":          "resumePublisher",
		"publisher reset":           "resetPublisher",
		"publisher parked retry":    "retryParked retryManyParked",
		"publisher parked resolve":  "resolveParked resolveManyParked",
		"publisher replay":          "republish",
		"events import": "- it appends, which is the application's: the API's credentials are operators', and " +
			"what they appended could never be taken back",
		"events export":        "exportEvents",
		"catalogue check":      "- it reads files of whoever runs it",
		"keys rotate":          "rotateKeys",
		"keys trust":           "trustWrappingKey",
		"keys delete":          "deleteKey",
		"copy repair":          "repairCopy",
		"gaps late":            "listLate",
		"events query":         "queryEvents",
		"workers list":         "listWorkers",
		"workers drain":        "drainWorker",
		"workers undrain":      "undrainWorker",
		"operation list":       "listOperations",
		"operation show":       "getOperation listOperationItems",
		"operation abort":      "abortOperation",
		"projection places":    "listPlaces",
		"scheduled list":       "listScheduled",
		"scheduled show":       "getScheduled",
		"scheduled reschedule": "reschedule",
		"scheduled cancel":     "cancelScheduled",
		"token list":           "listTokens",
		"token create":         "createToken",
		"token revoke":         "revokeToken",
	}
}

// onlyCalls returns the calls without a command, and why.
func onlyCalls() map[string]string {
	return map[string]string{
		"getDescription": "the API's own",
		"getMe":          "the API's own: a command has no identity but the database's",
		"listLeases":     "in campaign show, lease by lease",
		"streamCampaign": "for programs that follow a campaign; events query asks again",
		"streamEvents":   "for programs that follow a selection; events query asks again",
	}
}

// dryRuns returns the calls that take dry_run, by the command with --dry-run.
func dryRuns() map[string]string {
	return map[string]string{
		"failed requeue":           "requeueManyFailed",
		"failed resolve":           "resolveManyFailed",
		"campaign replay":          "replayCampaign",
		"campaign erase":           "eraseCampaign",
		"campaign archive":         "archiveCampaign archiveClosed",
		"subject erase":            "eraseSubjects",
		"group replay":             "replayGroup",
		"projection remove":        "removeProjection",
		"group remove":             "removeGroup",
		"gaps repair":              "repairGaps",
		"copy repair":              "repairCopy",
		"keys delete":              "deleteKey",
		"keys trust":               "trustWrappingKey",
		"publisher reset":          "resetPublisher",
		"workers drain":            "drainWorker",
		"publisher replay":         "republish",
		"publisher parked retry":   "retryManyParked",
		"publisher parked resolve": "resolveManyParked",
	}
}

func TestTheAPIHasADryRunWhereTheCommandLineHasOne(t *testing.T) {
	t.Parallel()
	description, err := os.ReadFile("../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for command, c := range leaves(newRoot(environment("", false, nil, nil), stock())) {
		calls := dryRuns()[command]
		if has := c.Flags().Lookup("dry-run") != nil; has != (calls != "") {
			t.Errorf("command %q has --dry-run: %t; what is said of it here is %q", command, has, calls)
		}
		for _, call := range strings.Fields(calls) {
			_, described, _ := strings.Cut(string(description), "operationId: "+call+"\n")
			described, _, _ = strings.Cut(described, "operationId: ")
			if !strings.Contains(described, "dry_run:") {
				t.Errorf("call %s does not take dry_run, as it should for command %q", call, command)
			}
		}
	}
}

func TestNeitherTheCommandLineNorTheAPIGrowsAlone(t *testing.T) {
	t.Parallel()
	there, meant := map[string]bool{}, map[string]bool{}
	for _, route := range new(api.API).Routes() {
		there[route.OperationID] = true
	}
	all := leaves(newRoot(environment("", false, nil, nil), stock()))
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

// TestEveryActIsACommand expects an existing command for each act. A generated command takes the
// act's parameters as flags and arguments.
func TestEveryActIsACommand(t *testing.T) {
	t.Parallel()
	all := leaves(newRoot(environment("", false, nil, nil), stock()))
	for _, act := range acts.All() {
		c := all[act.Command]
		if c == nil {
			t.Errorf("%s: there is no command %q", act.Name, act.Command)
			continue
		}
		for _, p := range act.Params {
			if !act.ByHand && p.Arg == "" && c.Flags().Lookup(p.Flag()) == nil {
				t.Errorf("%s: command %q has no --%s", act.Name, act.Command, p.Flag())
			}
		}
	}
}
