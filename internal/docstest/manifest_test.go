package docstest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"
)

const manifests = root + "/deploy/kubernetes"

// manifest holds the fields of a Kubernetes object that these tests read.
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
		PodSelector    selector `yaml:"podSelector"`
		PolicyTypes    []string `yaml:"policyTypes"`
		Ingress        []rule
		Egress         []rule
		ScaleTargetRef struct{ Name string } `yaml:"scaleTargetRef"`
		Triggers       []struct{ Metadata struct{ Query string } }
		Endpoints      []struct{ Port, Path string }
	}
}

// rule is a rule of a network policy.
type rule struct {
	From, To []peer
	Ports    []struct {
		Port     int
		EndPort  int `yaml:"endPort"`
		Protocol string
	}
}

type peer struct {
	NamespaceSelector *selector `yaml:"namespaceSelector"`
	PodSelector       *selector `yaml:"podSelector"`
	IPBlock           any       `yaml:"ipBlock"`
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

// objects reads all manifests except kustomizations, by kind and name.
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
	for _, want := range []string{
		"Deployment/tidemark-worker", "Job/tidemark-migrate", "ConfigMap/tidemark-settings",
		"PodDisruptionBudget/tidemark-worker", "NetworkPolicy/tidemark", "ScaledObject/tidemark-worker",
	} {
		if _, ok := all[want]; !ok {
			t.Fatalf("there is no %s under deploy/kubernetes", want)
		}
	}
	return all
}
