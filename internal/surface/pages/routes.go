package pages

// routes is every address that there is. What changes something is a POST, whose sender's role the act checks.
func (p *Pages) routes() {
	for pattern, read := range map[string]reading{
		"GET /{$}": p.readOverview, "GET /campaigns": p.readCampaigns, "GET /campaign": p.readCampaign,
		"GET /event":    p.readEvent,
		"GET /deferred": p.readDeferred, "GET /deferred/pair": p.readPair, "GET /parked": p.readParked,
		"GET /projections": p.readProjections, "GET /publishers": p.readPublishers, "GET /publishers/pair": p.readPublisher,
		"GET /workers": p.readWorkers, "GET /lag": p.readHeat,
		"GET /bulk": p.readBulk, "GET /bulk/parked": p.readBulkParked, "GET /bulk/operation": p.readOperation,
		"GET /postgres": p.readPostgres, "GET /audit": p.readAudit, "GET /settings": p.readSettings, "GET /": p.readNothing,
	} {
		p.mux.Handle(pattern, p.show(read))
	}
	for pattern, do := range map[string]acting{
		"POST /deferred/requeue": requeuePair, "POST /deferred/resolve": resolvePair,
		"POST /deferred/unresolve": unresolvePair,
		"POST /campaign/replay":    replayCampaign, "POST /campaign/pause": pauseTarget,
		"POST /campaign/resume": resumeTarget,
		"POST /bulk/start":      startBulk, "POST /bulk/abort": abortOperation, "POST /campaign/verify": verifyCampaign,
		"POST /projections/verify": verifyProjection,
		"POST /workers/drain":      drainWorker, "POST /workers/undrain": undrainWorker,
		"POST /pause": pauseTarget, "POST /resume": resumeTarget,
		"POST /publishers/pause": pausePublisher, "POST /publishers/resume": resumePublisher,
		"POST /publishers/reset": resetPublisher, "POST /publishers/test": testSend,
		"POST /parked/retry": retryParked, "POST /parked/resolve": resolveParked,
		"POST /projections/rebuild": startRebuild, "POST /projections/swap": swapRebuild,
		"POST /projections/pause": pauseRebuild, "POST /projections/resume": resumeRebuild,
		"POST /projections/abort": abortRebuild, "POST /projections/rollback": rollBack,
		"POST /bulk/parked/start": startBulkParked, "POST /gaps/repair": repairGaps, "POST /publishers/republish": republish,
	} {
		p.mux.Handle(pattern, p.act(do))
	}
	p.mux.HandleFunc("POST /theme", p.setTheme)
	p.mux.HandleFunc("GET /event/payload", p.servePayload)
	p.mux.HandleFunc("GET /static/", p.serveAsset)
}
