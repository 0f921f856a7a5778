package api

func (a *API) campaignRoutes() []Route {
	return []Route{
		a.reads("/campaigns/{campaign}/as-of", "getAsOf", a.asOf),
		a.reads("/campaigns/{campaign}/diff", "getDiff", a.diff),
		a.reads("/campaigns/{campaign}/why", "getWhy", a.why),
		a.reads("/campaigns/{campaign}/verify", "verifyCampaign", a.verify),
	}
}
