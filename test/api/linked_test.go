package api

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tidemark-go/tidemark"

// TestAProgramThatOnlyAppendsLinksNoModuleButThePoolsAndUUID lists the modules of a program that appends
// under a catalogue. What takes another module is in a package that a program imports by its name.
func TestAProgramThatOnlyAppendsLinksNoModuleButThePoolsAndUUID(t *testing.T) {
	t.Parallel()
	allowed := append(linked(t, "github.com/jackc/pgx/v5/pgxpool"), module, "github.com/google/uuid")
	found := linked(t, module+"/test/api/appender")
	if !slices.Contains(found, "github.com/jackc/pgx/v5") || !slices.Contains(found, module) {
		t.Fatalf("the program links %q", found)
	}
	for _, path := range found {
		if !slices.Contains(allowed, path) {
			t.Errorf("a program that only appends links %s: go list -deps ./test/api/appender", path)
		}
	}
}

// TestFeaturesThatLinkModulesAreImportedByName looks at what else tells a program's packages apart.
func TestFeaturesThatLinkModulesAreImportedByName(t *testing.T) {
	t.Parallel()
	for of, want := range map[string]string{
		"pkg/telemetry":            "github.com/prometheus/client_golang go.opentelemetry.io/otel",
		"pkg/catalogue/yamlfile":   "github.com/goccy/go-yaml github.com/santhosh-tekuri/jsonschema/v6",
		"pkg/catalogue/jsonschema": "github.com/santhosh-tekuri/jsonschema/v6",
		// The engine decodes payloads in half the time: see internal/fastjson.
		"pkg/projector": "github.com/go-json-experiment/json",
	} {
		found := linked(t, module+"/"+of)
		for _, path := range strings.Fields(want) {
			if !slices.Contains(found, path) {
				t.Errorf("%s does not link %s, but %q", of, path, found)
			}
		}
	}
}

// linked returns the paths of the modules that a package links.
func linked(t *testing.T, path string) (paths []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", path).Output()
	if err != nil {
		t.Fatalf("go list %s: %v", path, err)
	}
	paths = strings.Fields(string(out))
	slices.Sort(paths)
	return slices.Compact(paths)
}
