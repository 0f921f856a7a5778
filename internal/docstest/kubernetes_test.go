package docstest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// String returns the allowed peers and ports.
func (r rule) String() string {
	var b strings.Builder
	for _, p := range append(r.From, r.To...) {
		fmt.Fprintf(&b, "namespace %s, pod %s, %v:", p.NamespaceSelector, p.PodSelector, p.IPBlock)
	}
	for _, p := range r.Ports {
		fmt.Fprintf(&b, " %s %d-%d", p.Protocol, p.Port, max(p.Port, p.EndPort))
	}
	return b.String()
}

// String returns the labels, or "any" without a selector.
func (s *selector) String() string {
	if s == nil {
		return "any"
	}
	return strings.TrimPrefix(fmt.Sprint(s.MatchLabels), "map")
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
		if addr := objects(t)["ConfigMap/tidemark-settings"].Data["TIDEMARK_HTTP_ADDR"]; addr != ":8080" ||
			worker.Ports[0].ContainerPort != 8080 {
			t.Errorf("the worker answers on %s, its port is %d", addr, worker.Ports[0].ContainerPort)
		}
	})
	t.Run("pods may finish before they are killed", func(t *testing.T) {
		t.Parallel()
		pod := objects(t)["Deployment/tidemark-worker"].Spec.Template.Spec
		shutdown := duration(t, objects(t)["ConfigMap/tidemark-settings"].Data["TIDEMARK_SHUTDOWN_TIMEOUT"])
		apply := duration(t, objects(t)["ConfigMap/tidemark-settings"].Data["TIDEMARK_APPLY_TIMEOUT"])
		stop := time.Duration(pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds) * time.Second
		if shutdown <= max(apply, publishTimeout) || stop == 0 ||
			time.Duration(pod.TerminationGracePeriodSeconds)*time.Second < stop+shutdown+cutOff {
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
					if ref := e.ValueFrom.SecretKeyRef; ref.Name != "" &&
						(ref.Name != "tidemark-database" || !slices.Contains([]string{"worker-url", "owner-url"}, ref.Key)) {
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
			if s := pod.SecurityContext; !s.RunAsNonRoot || s.RunAsUser == 0 || s.SeccompProfile.Type != "RuntimeDefault" ||
				pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
				t.Errorf("%s: %+v", id, pod)
			}
			if _, ok := objects(t)["ServiceAccount/"+pod.ServiceAccountName]; !ok {
				t.Errorf("%s: there is no service account %s", id, pod.ServiceAccountName)
			}
			if user := fmt.Sprintf("\nUSER %[1]d:%[1]d\n", pod.SecurityContext.RunAsUser); !bytes.Contains(dockerfileText(t),
				[]byte(user)) {
				t.Errorf("%s runs as %d, the image's programs as another", id, pod.SecurityContext.RunAsUser)
			}
			for _, c := range slices.Concat(pod.Containers, pod.InitContainers) {
				s := c.SecurityContext
				if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem ||
					!slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
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
		for _, id := range []string{
			"PodDisruptionBudget/tidemark-worker", "Deployment/tidemark-worker",
			"Service/tidemark-worker", "ServiceMonitor/tidemark-worker",
		} {
			if text := asText(all[id].Spec.Selector); !strings.Contains(text, "app.kubernetes.io/name:tidemark-worker") {
				t.Errorf("%s selects %s", id, text)
			}
		}
		if got := all["ScaledObject/tidemark-worker"].Spec.ScaleTargetRef.Name; got != "tidemark-worker" {
			t.Errorf("KEDA scales %s", got)
		}
		if p := all["NetworkPolicy/tidemark"].Spec; !slices.Equal(p.PolicyTypes, []string{"Ingress", "Egress"}) ||
			p.PodSelector.MatchLabels["app.kubernetes.io/part-of"] != "tidemark" {
			t.Errorf("the network policy: %+v", p)
		}
		service, monitor := all["Service/tidemark-worker"].Spec.Ports[0],
			all["ServiceMonitor/tidemark-worker"].Spec.Endpoints[0]
		if service.Name != monitor.Port ||
			service.TargetPort != all["Deployment/tidemark-worker"].Spec.Template.Spec.Containers[0].Ports[0].Name ||
			monitor.Path != "/metrics" {
			t.Errorf("the service has %+v, the monitor %+v", service, monitor)
		}
	})
	t.Run("pods reach names and the database alone, and only metrics reach them", func(t *testing.T) {
		t.Parallel()
		policies := 0
		for name, m := range objects(t) {
			if m.Kind != "NetworkPolicy" {
				continue
			}
			policies++ // policies add up, so each of them may be the one that allows too much
			const where = "namespace [kubernetes.io/metadata.name:%s], pod %s, <nil>: %s"
			for direction, want := range map[string][]string{
				fmt.Sprint(m.Spec.Ingress): {fmt.Sprintf(where, "monitoring", "any", "TCP 8080-8080")},
				fmt.Sprint(m.Spec.Egress): {
					fmt.Sprintf(where, "kube-system", "any", "UDP 53-53 TCP 53-53"),
					fmt.Sprintf(where, "database", "[app.kubernetes.io/name:postgresql]", "TCP 5432-5432"),
				},
			} {
				if direction != fmt.Sprint(want) {
					t.Errorf("%s lets through\n%s, want\n%s", name, direction, want)
				}
			}
		}
		if policies != 1 {
			t.Errorf("there are %d network policies, want 1", policies)
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
		page, err := os.ReadFile(root + "/docs/reference/metrics.md")
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
					t.Errorf("docs/reference/metrics.md does not know %s", name)
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

// asText formats nested maps as text.
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
