package docstest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// service is what these tests read of a service in docker-compose.yml.
type service struct {
	Image         string
	Build         string
	Entrypoint    []string
	Environment   map[string]string
	ContainerName string `yaml:"container_name"`
	Ports         []string
	Healthcheck   map[string]any
	Restart       string
	DependsOn     map[string]struct{ Condition string } `yaml:"depends_on"`
}

func composeServices(t *testing.T) map[string]service {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Services map[string]service }
	if err := yaml.UnmarshalWithOptions(content, &file, yaml.AllowDuplicateMapKey()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postgres", "migrate", "worker"} {
		if _, ok := file.Services[name]; !ok {
			t.Fatalf("docker-compose.yml has no service %s", name)
		}
	}
	return file.Services
}

func TestCompose(t *testing.T) {
	t.Parallel()
	t.Run("pins the version of every image", func(t *testing.T) {
		t.Parallel()
		for name, s := range composeServices(t) {
			if _, tag, _ := strings.Cut(s.Image, ":"); tag == "" || tag == "latest" {
				t.Errorf("service %s uses image %q", name, s.Image)
			}
		}
	})
	t.Run("lets the worker be scaled", func(t *testing.T) {
		t.Parallel()
		worker := composeServices(t)["worker"]
		if worker.ContainerName != "" || len(worker.Ports) > 0 {
			t.Errorf("container name %q and ports %v can be had once only", worker.ContainerName, worker.Ports)
		}
	})
	t.Run("migrates once Postgres is healthy, and starts workers after that", func(t *testing.T) {
		t.Parallel()
		services := composeServices(t)
		if got := services["migrate"].DependsOn["postgres"].Condition; got != "service_healthy" {
			t.Errorf("migrate starts when Postgres is %q", got)
		}
		if got := services["worker"].DependsOn["migrate"].Condition; got != "service_completed_successfully" {
			t.Errorf("the worker starts when migrate is %q", got)
		}
	})
	t.Run("watches the health of what stays up", func(t *testing.T) {
		t.Parallel()
		for name, s := range composeServices(t) {
			if s.Restart != "no" && len(s.Healthcheck) == 0 {
				t.Errorf("service %s has no healthcheck", name)
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
			if s.Build == "" || len(s.Entrypoint) == 0 {
				continue
			}
			built := regexp.MustCompile(`(?m)^RUN .*go build.* (\./\S+` + s.Entrypoint[0] + `)\b`).FindStringSubmatch(dockerfile)
			if built == nil {
				t.Errorf("service %s starts %s, which the Dockerfile does not build", name, s.Entrypoint[0])
				continue
			}
			if _, err := os.Stat(filepath.Join(root, built[1], "main.go")); err != nil {
				t.Errorf("service %s: %v", name, err)
			}
		}
	})
	t.Run("ends in an image without a shell and without root", func(t *testing.T) {
		t.Parallel()
		last := dockerfile[strings.LastIndex(dockerfile, "FROM "):]
		if !strings.HasPrefix(last, "FROM scratch\n") || !regexp.MustCompile(`(?m)^USER [1-9][0-9]*:[1-9][0-9]*$`).MatchString(last) {
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
		if version == nil || !strings.Contains(dockerfile, "FROM golang:"+string(version[1])+"-") {
			t.Errorf("go.mod asks for Go %s, the Dockerfile starts from another", version)
		}
	})
}
