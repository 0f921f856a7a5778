package docstest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

const manifests = root + "/deploy/kubernetes"

// manifest is what these tests read of an object for Kubernetes.
type manifest struct {
	file     string
	Kind     string
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Data map[string]string
	Spec struct {
		Replicas     int
		Selector     any
		Template     struct{ Spec podSpec }
		MinAvailable any `yaml:"minAvailable"`
		Ports        []struct {
			Name       string
			TargetPort string `yaml:"targetPort"`
			Port       int
		}
		PodSelector    selector              `yaml:"podSelector"`
		PolicyTypes    []string              `yaml:"policyTypes"`
		ScaleTargetRef struct{ Name string } `yaml:"scaleTargetRef"`
		Triggers       []struct{ Metadata struct{ Query string } }
		Endpoints      []struct{ Port, Path string }
	}
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type podSpec struct {
	TerminationGracePeriodSeconds int    `yaml:"terminationGracePeriodSeconds"`
	AutomountServiceAccountToken  *bool  `yaml:"automountServiceAccountToken"`
	ServiceAccountName            string `yaml:"serviceAccountName"`
	SecurityContext               struct {
		RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
		RunAsUser      int                   `yaml:"runAsUser"`
		SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	InitContainers []container `yaml:"initContainers"`
	Containers     []container
}

type container struct {
	Name, Image string
	Command     []string
	EnvFrom     []struct {
		ConfigMapRef struct{ Name string } `yaml:"configMapRef"`
	} `yaml:"envFrom"`
	Env []struct {
		Name      string
		ValueFrom struct {
			SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	LivenessProbe  probe `yaml:"livenessProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
	StartupProbe   probe `yaml:"startupProbe"`
	Lifecycle      struct {
		PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
	}
	Resources       struct{ Requests, Limits map[string]string }
	SecurityContext struct {
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Drop []string }
	} `yaml:"securityContext"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// objects reads all manifests but kustomizations, by kind and name.
func objects(t *testing.T) map[string]manifest {
	t.Helper()
	all := map[string]manifest{}
	err := filepath.WalkDir(manifests, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" || d.Name() == "kustomization.yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for decoder := yaml.NewDecoder(bytes.NewReader(content)); ; {
			m := manifest{file: path}
			err := decoder.Decode(&m)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			all[m.Kind+"/"+m.Metadata.Name] = m
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Deployment/tidemark-worker", "Job/tidemark-migrate", "ConfigMap/tidemark-settings", "PodDisruptionBudget/tidemark-worker", "NetworkPolicy/tidemark", "ScaledObject/tidemark-worker"} {
		if _, ok := all[want]; !ok {
			t.Fatalf("there is no %s under deploy/kubernetes", want)
		}
	}
	return all
}

func TestKubernetes(t *testing.T) {
	t.Parallel()
	t.Run("kustomizations name every file beside them, and none that is not there", func(t *testing.T) {
		t.Parallel()
		found, err := filepath.Glob(manifests + "/*/kustomization.yaml")
		if err != nil || len(found) != 4 {
			t.Fatalf("kustomizations: %v, %v", found, err)
		}
		for _, path := range found {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var k struct {
				Resources          []string
				ConfigMapGenerator []struct{ Files []string } `yaml:"configMapGenerator"`
			}
			if err := yaml.Unmarshal(content, &k); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			named := k.Resources
			for _, g := range k.ConfigMapGenerator {
				named = append(named, g.Files...)
			}
			for _, name := range named {
				if _, err := os.Stat(filepath.Join(filepath.Dir(path), name)); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
			files, err := filepath.Glob(filepath.Dir(path) + "/*.yaml")
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				if name := filepath.Base(file); name != "kustomization.yaml" && !slices.Contains(named, name) {
					t.Errorf("%s does not name %s", path, name)
				}
			}
		}
	})
	t.Run("liveness asks for the loops, readiness for the database", func(t *testing.T) {
		t.Parallel()
		worker := objects(t)["Deployment/tidemark-worker"].Spec.Template.Spec.Containers[0]
		for _, p := range []struct {
			probe
			path string
		}{{worker.LivenessProbe, "/healthz"}, {worker.StartupProbe, "/healthz"}, {worker.ReadinessProbe, "/readyz"}} {
			if p.HTTPGet.Path != p.path || p.HTTPGet.Port != worker.Ports[0].Name {
				t.Errorf("a probe asks %+v, want %s of port %s", p.HTTPGet, p.path, worker.Ports[0].Name)
			}
		}
		if addr := objects(t)["ConfigMap/tidemark-settings"].Data["TIDEMARK_HTTP_ADDR"]; addr != ":8080" || worker.Ports[0].ContainerPort != 8080 {
			t.Errorf("the worker answers on %s, its port is %d", addr, worker.Ports[0].ContainerPort)
		}
	})
	t.Run("pods may finish before they are killed", func(t *testing.T) {
		t.Parallel()
		pod := objects(t)["Deployment/tidemark-worker"].Spec.Template.Spec
		shutdown := duration(t, objects(t)["ConfigMap/tidemark-settings"].Data["TIDEMARK_SHUTDOWN_TIMEOUT"])
		apply := duration(t, objects(t)["ConfigMap/tidemark-settings"].Data["TIDEMARK_APPLY_TIMEOUT"])
		stop := time.Duration(pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds) * time.Second
		if shutdown <= max(apply, publishTimeout) || stop == 0 || time.Duration(pod.TerminationGracePeriodSeconds)*time.Second < stop+shutdown+cutOff {
			t.Errorf("preStop %v, shutdown %v, apply %v, grace %d s", stop, shutdown, apply, pod.TerminationGracePeriodSeconds)
		}
	})
	t.Run("settings are those that workers read", func(t *testing.T) {
		t.Parallel()
		known := workerDefaults(t)
		for name := range objects(t)["ConfigMap/tidemark-settings"].Data {
			if _, ok := known[name]; !ok {
				t.Errorf("no worker reads %s", name)
			}
		}
		for id, m := range objects(t) {
			for _, c := range slices.Concat(m.Spec.Template.Spec.Containers, m.Spec.Template.Spec.InitContainers) {
				for _, from := range c.EnvFrom {
					if _, ok := objects(t)["ConfigMap/"+from.ConfigMapRef.Name]; !ok {
						t.Errorf("%s: there is no ConfigMap %s", id, from.ConfigMapRef.Name)
					}
				}
				for _, e := range c.Env {
					if _, ok := known[e.Name]; !ok && e.Name != "GOMEMLIMIT" {
						t.Errorf("%s: nothing reads %s", id, e.Name)
					}
					if ref := e.ValueFrom.SecretKeyRef; ref.Name != "" && (ref.Name != "tidemark-database" || !slices.Contains([]string{"worker-url", "owner-url"}, ref.Key)) {
						t.Errorf("%s: the secret of %s is %+v", id, e.Name, ref)
					}
				}
			}
		}
	})
	t.Run("containers may do no more than they need", func(t *testing.T) {
		t.Parallel()
		for id, m := range objects(t) {
			pod := m.Spec.Template.Spec
			if len(pod.Containers) == 0 {
				continue
			}
			if s := pod.SecurityContext; !s.RunAsNonRoot || s.RunAsUser == 0 || s.SeccompProfile.Type != "RuntimeDefault" || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
				t.Errorf("%s: %+v", id, pod)
			}
			if _, ok := objects(t)["ServiceAccount/"+pod.ServiceAccountName]; !ok {
				t.Errorf("%s: there is no service account %s", id, pod.ServiceAccountName)
			}
			if user := fmt.Sprintf("\nUSER %[1]d:%[1]d\n", pod.SecurityContext.RunAsUser); !bytes.Contains(dockerfileText(t), []byte(user)) {
				t.Errorf("%s runs as %d, the image's programs as another", id, pod.SecurityContext.RunAsUser)
			}
			for _, c := range slices.Concat(pod.Containers, pod.InitContainers) {
				s := c.SecurityContext
				if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
					t.Errorf("%s/%s: %+v", id, c.Name, s)
				}
				if c.Resources.Requests["cpu"] == "" || c.Resources.Limits["memory"] == "" {
					t.Errorf("%s/%s: resources %+v", id, c.Name, c.Resources)
				}
				if c.Image != "tidemark:0.0.0" {
					t.Errorf("%s/%s: image %q, which kustomizations do not replace", id, c.Name, c.Image)
				}
				if len(c.Command) > 0 && !bytes.Contains(dockerfileText(t), []byte("./cmd"+c.Command[0])) {
					t.Errorf("%s/%s: the image has no %s", id, c.Name, c.Command[0])
				}
			}
		}
	})
	t.Run("names and labels fit together", func(t *testing.T) {
		t.Parallel()
		all := objects(t)
		for _, id := range []string{"PodDisruptionBudget/tidemark-worker", "Deployment/tidemark-worker", "Service/tidemark-worker", "ServiceMonitor/tidemark-worker"} {
			if text := asText(all[id].Spec.Selector); !strings.Contains(text, "app.kubernetes.io/name:tidemark-worker") {
				t.Errorf("%s selects %s", id, text)
			}
		}
		if got := all["ScaledObject/tidemark-worker"].Spec.ScaleTargetRef.Name; got != "tidemark-worker" {
			t.Errorf("KEDA scales %s", got)
		}
		if p := all["NetworkPolicy/tidemark"].Spec; !slices.Equal(p.PolicyTypes, []string{"Ingress", "Egress"}) || p.PodSelector.MatchLabels["app.kubernetes.io/part-of"] != "tidemark" {
			t.Errorf("the network policy: %+v", p)
		}
		service, monitor := all["Service/tidemark-worker"].Spec.Ports[0], all["ServiceMonitor/tidemark-worker"].Spec.Endpoints[0]
		if service.Name != monitor.Port || service.TargetPort != all["Deployment/tidemark-worker"].Spec.Template.Spec.Containers[0].Ports[0].Name || monitor.Path != "/metrics" {
			t.Errorf("the service has %+v, the monitor %+v", service, monitor)
		}
	})
	t.Run("the autoscaler alone says how many there are", func(t *testing.T) {
		t.Parallel()
		content, err := os.ReadFile(manifests + "/keda/kustomization.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var k struct {
			Patches []struct {
				Target struct{ Kind, Name string }
				Patch  string
			}
		}
		if err := yaml.Unmarshal(content, &k); err != nil {
			t.Fatal(err)
		}
		if len(k.Patches) != 1 || k.Patches[0].Target.Kind != "Deployment" || k.Patches[0].Target.Name != "tidemark-worker" ||
			!regexp.MustCompile(`op: remove\s+path: /spec/replicas\s*$`).MatchString(k.Patches[0].Patch) {
			t.Errorf("an apply puts the Deployment's number in the place of the autoscaler's: %+v", k.Patches)
		}
	})
	t.Run("scaling goes by a metric that there is", func(t *testing.T) {
		t.Parallel()
		page, err := os.ReadFile(root + "/docs/metrics.md")
		if err != nil {
			t.Fatal(err)
		}
		for _, trigger := range objects(t)["ScaledObject/tidemark-worker"].Spec.Triggers {
			names := regexp.MustCompile(`tidemark_[a-z_]+`).FindAllString(trigger.Metadata.Query, -1)
			if len(names) == 0 {
				t.Errorf("the query is %q", trigger.Metadata.Query)
			}
			for _, name := range names {
				if !bytes.Contains(page, []byte("`"+name+"`")) {
					t.Errorf("docs/metrics.md does not know %s", name)
				}
			}
		}
	})
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// asText writes nested maps as text.
func asText(v any) string {
	text, err := yaml.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(text), ": ", ":")
}

func dockerfileText(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	return content
}
