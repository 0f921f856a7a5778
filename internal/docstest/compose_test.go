package docstest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// composeServices returns the services of docker-compose.yml in all profiles. The loader of compose
// reads the file: it checks the schema, fills in variables and follows references.
func composeServices(t *testing.T) types.Services {
	t.Helper()
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: root, ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(root, "docker-compose.yml")}},
	}, loader.WithProfiles([]string{"*"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postgres", "migrate", "worker", "load", "tidemark", "prometheus", "grafana"} {
		if _, ok := project.Services[name]; !ok {
			t.Fatalf("docker-compose.yml has no service %s", name)
		}
	}
	return project.Services
}

// The timeouts of the worker and of publishers, as in their packages.
const (
	applyTimeout   = 20 * time.Second // config.Worker.Projector.ApplyTimeout
	publishTimeout = 30 * time.Second // publisher.Publisher.Timeout
	cutOff         = 10 * time.Second // the most that cancelling and releasing work takes after the shutdown timeout
)

func TestCompose(t *testing.T) {
	t.Parallel()
	t.Run("pins the exact version of every image", func(t *testing.T) {
		t.Parallel()
		images := map[string]string{}
		for name, s := range composeServices(t) {
			if s.Image != "tidemark:dev" { // built here
				images["service "+name] = s.Image
			}
		}
		dockerfile, err := os.ReadFile(root + "/Dockerfile")
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(string(dockerfile), -1) {
			if from[1] != "scratch" {
				images["the Dockerfile"] = from[1]
			}
		}
		if len(images) < 4 {
			t.Errorf("there are only the images %v", images)
		}
		for name, image := range images {
			exact := `^[a-z/]+:v?\d+\.\d+\.\d+(-\w+)?(@sha256:[0-9a-f]{64})?$`
			if strings.HasPrefix(image, "postgres:") { // its version has two numbers
				exact = `^postgres:\d+\.\d+(-\w+)?(@sha256:[0-9a-f]{64})?$`
			}
			if !regexp.MustCompile(exact).MatchString(image) {
				t.Errorf("%s uses image %q", name, image)
			}
		}
	})
	t.Run("builds each image in one service, which those that use it wait for", func(t *testing.T) {
		t.Parallel()
		services, builder := composeServices(t), map[string]string{}
		for name, s := range services {
			if other := builder[s.Image]; s.Build != nil && other != "" {
				t.Errorf("%s and %s both build %s: done at once, one of them fails", name, other, s.Image)
			}
			if s.Build != nil {
				builder[s.Image] = name
			}
		}
		for name, s := range services {
			if _, waits := s.DependsOn[builder[s.Image]]; builder[s.Image] != "" && name != builder[s.Image] && !waits {
				t.Errorf("%s uses %s and does not wait for %s, which builds it: started alone, it has no image", name, s.Image,
					builder[s.Image])
			}
		}
		if builder["tidemark:dev"] == "" {
			t.Error("no service builds tidemark:dev")
		}
	})
	t.Run("lets the worker be scaled", func(t *testing.T) {
		t.Parallel()
		worker := composeServices(t)["worker"]
		if worker.ContainerName != "" || len(worker.Ports) > 0 {
			t.Errorf("container name %q and ports %v can be had once only", worker.ContainerName, worker.Ports)
		}
	})
	t.Run("opens ports to this machine alone", func(t *testing.T) {
		t.Parallel()
		for name, s := range composeServices(t) {
			for _, p := range s.Ports {
				if p.HostIP != "127.0.0.1" {
					t.Errorf("service %s publishes port %s on %q", name, p.Published, p.HostIP)
				}
			}
		}
	})
	t.Run("migrates once Postgres is healthy, and starts workers after that", func(t *testing.T) {
		t.Parallel()
		services := composeServices(t)
		for _, want := range []struct{ service, on, condition string }{
			{"migrate", "postgres", types.ServiceConditionHealthy},
			{"worker", "migrate", types.ServiceConditionCompletedSuccessfully},
			{"load", "migrate", types.ServiceConditionCompletedSuccessfully},
			{"tidemark", "migrate", types.ServiceConditionCompletedSuccessfully},
			{"grafana", "prometheus", types.ServiceConditionHealthy},
		} {
			if got := services[want.service].DependsOn[want.on].Condition; got != want.condition {
				t.Errorf("%s waits for %s to be %q, want %q", want.service, want.on, got, want.condition)
			}
		}
	})
	t.Run("watches the health of what stays up, and of nothing else", func(t *testing.T) {
		t.Parallel()
		for name, s := range composeServices(t) {
			once := s.Restart == types.RestartPolicyNo
			if watched := s.HealthCheck != nil && !s.HealthCheck.Disable; watched == once {
				t.Errorf("service %s: restart %q, health is watched: %t", name, s.Restart, watched)
			}
		}
	})
	t.Run("gives programs nothing that they do not need", func(t *testing.T) {
		t.Parallel()
		for name, s := range composeServices(t) {
			if name == "postgres" {
				continue // its entrypoint changes owner and user
			}
			if !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") ||
				!s.ReadOnly && name != "grafana" || s.Privileged {
				t.Errorf("service %s: drops %v, security %v, read-only root %t", name, s.CapDrop, s.SecurityOpt, s.ReadOnly)
			}
		}
	})
	t.Run("mounts what there is", func(t *testing.T) {
		t.Parallel()
		for name, s := range composeServices(t) {
			for _, v := range s.Volumes {
				if v.Type != types.VolumeTypeBind {
					continue
				}
				if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
					t.Errorf("service %s mounts %s, read-only %t: %v", name, v.Source, v.ReadOnly, err)
				}
			}
		}
	})
	t.Run("lets workers finish before it kills them", func(t *testing.T) {
		t.Parallel()
		worker := composeServices(t)["worker"]
		value := worker.Environment["TIDEMARK_SHUTDOWN_TIMEOUT"]
		if value == nil || worker.StopGracePeriod == nil {
			t.Fatal("the worker has no shutdown timeout or no grace period")
		}
		shutdown, err := time.ParseDuration(*value)
		if err != nil {
			t.Fatal(err)
		}
		if shutdown <= max(applyTimeout, publishTimeout) || time.Duration(*worker.StopGracePeriod) < shutdown+cutOff {
			t.Errorf("the shutdown timeout is %v, the grace period %v", shutdown, time.Duration(*worker.StopGracePeriod))
		}
	})
	t.Run("sets variables that workers read", func(t *testing.T) {
		t.Parallel()
		known := workerDefaults(t)
		for name := range composeServices(t)["worker"].Environment {
			if _, ok := known[name]; !ok {
				t.Errorf("no worker reads %s", name)
			}
		}
	})
}

func TestDockerfile(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	dockerfile := string(content)
	t.Run("holds every program that docker-compose.yml starts", func(t *testing.T) {
		t.Parallel()
		for name, s := range composeServices(t) {
			if s.Image != "tidemark:dev" {
				continue
			}
			program := "/tidemark"
			if len(s.Entrypoint) > 0 {
				program = s.Entrypoint[0]
			}
			built := regexp.MustCompile(`(?m)^RUN .*go build.* (\./\S+` + program + `)\b`).FindStringSubmatch(dockerfile)
			if built == nil {
				t.Errorf("service %s starts %s, which the Dockerfile does not build", name, program)
				continue
			}
			if _, err := os.Stat(filepath.Join(root, built[1], "main.go")); err != nil {
				t.Errorf("service %s: %v", name, err)
			}
		}
	})
	t.Run("builds from nothing that .dockerignore keeps out", func(t *testing.T) {
		t.Parallel()
		ignore, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
		if err != nil {
			t.Fatal(err)
		}
		// The programs are compiled from these folders. All else is excluded.
		for _, folder := range []string{"cmd", "internal", "migrations", "pkg", "examples", "go.mod", "go.sum"} {
			if !slices.Contains(strings.Fields(string(ignore)), "!"+folder) {
				t.Errorf(".dockerignore keeps %s out", folder)
			}
		}
	})
	t.Run("ends in an image without a shell and without root, that knows of its health", func(t *testing.T) {
		t.Parallel()
		last := dockerfile[strings.LastIndex(dockerfile, "FROM "):]
		if !strings.HasPrefix(last, "FROM scratch\n") ||
			!regexp.MustCompile(`(?m)^USER [1-9][0-9]*:[1-9][0-9]*$`).MatchString(last) ||
			!regexp.MustCompile(`(?m)^HEALTHCHECK .*CMD \["/tidemark", "worker", "healthcheck"\]$`).MatchString(last) {
			t.Errorf("the last stage is\n%s", last)
		}
	})
	t.Run("builds with the Go version of go.mod", func(t *testing.T) {
		t.Parallel()
		module, err := os.ReadFile(filepath.Join(root, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
		if version == nil || !regexp.MustCompile(`(?m)^FROM golang:`+
			regexp.QuoteMeta(string(version[1]))+`(\.\d+)?-`).MatchString(dockerfile) {
			t.Errorf("go.mod asks for Go %s, the Dockerfile starts from another", version)
		}
	})
}
