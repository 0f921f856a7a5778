package config

const envModels = "TIDEMARK_MODELS_URL"

// ModelsSetting binds the setting of the database for sessions that read read models.
func ModelsSetting(s *Set, url *string) {
	s.String(url, envModels, "",
		"the same database with the workers' login, to read and make read models (default: as the command connects)")
}
