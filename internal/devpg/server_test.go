package devpg_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/devpg"
)

const (
	readTable = `SELECT word FROM kept`
)

// removeCluster removes a cluster. The cluster is elsewhere if the server's user cannot reach the
// state folder. The initdb of a killed process can still write there, so removeCluster retries.
func removeCluster(t *testing.T, dir string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		err := os.RemoveAll(clusterHome(dir))
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestDataIsKeptBetweenRuns(t *testing.T) {
	t.Parallel()
	dir := stateFolder(t)
	first := open(t, quick(dir))
	query(t, first.URL(), "SELECT 'connected'")
	mustExec(t, first.URL(), "CREATE TABLE kept AS SELECT 'still here' AS word")
	closeServer(t, first)
	if !gone(t, first.URL()) {
		t.Fatal("the server runs on after its only user closed it")
	}
	second := open(t, quick(dir))
	if got := query(t, second.URL(), readTable); got != "still here" {
		t.Errorf("the second run reads %q", got)
	}
	if first.URL() != second.URL() {
		t.Errorf("the free port was not taken again: %s, then %s", first.URL(), second.URL())
	}
}

func TestTheLastUserStopsTheServer(t *testing.T) {
	t.Parallel()
	dir := stateFolder(t)
	other := startHolder(t, dir)
	url := other.url(t)
	here, again := open(t, quick(dir)), open(t, quick(dir))
	if here.URL() != url || again.URL() != url {
		t.Fatalf("three users, and the servers are %s, %s and %s", url, here.URL(), again.URL())
	}
	closeServer(t, here)
	closeServer(t, here)
	query(t, url, "SELECT 'runs'")
	other.leave(t)
	query(t, url, "SELECT 'runs'")
	closeServer(t, again)
	if !gone(t, url) {
		t.Error("the server runs on after its last user closed it")
	}
}

func TestSettingsGoOnTopOfDurableDefaults(t *testing.T) {
	t.Parallel()
	server := open(t, devpg.Config{Private: true, Settings: map[string]string{
		"shared_buffers": "16MB", "application_name": "it's quoted",
	}})
	for name, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "max_connections": "200", "shared_buffers": "16MB",
		"application_name": "it's quoted",
		"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "server_encoding": "UTF8",
	} {
		if got := query(t, server.URL(), "SELECT current_setting('"+name+"')"); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := query(t, server.URL(), "SELECT current_database()"); got != devpg.Database {
		t.Errorf("the database is %q", got)
	}
}

func TestRestartKeepsDataAndAddress(t *testing.T) {
	t.Parallel()
	for _, mode := range []devpg.Mode{devpg.Fast, devpg.Immediate} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			server := open(t, devpg.Config{Private: true, Settings: quick("").Settings})
			url := server.URL()
			mustExec(t, url, "CREATE TABLE kept AS SELECT 'still here' AS word")
			if err := server.Restart(t.Context(), mode); err != nil {
				t.Fatal(err)
			}
			if server.URL() != url {
				t.Errorf("the address was %s and is %s", url, server.URL())
			}
			if got := query(t, url, readTable); got != "still here" {
				t.Errorf("after the restart the table reads %q", got)
			}
			if err := server.Stop(t.Context(), mode); err != nil {
				t.Fatal(err)
			}
			if !gone(t, url) {
				t.Error("the server runs on after Stop")
			}
		})
	}
}

func TestAPrivateServersFolderGoesWithIt(t *testing.T) {
	t.Parallel()
	server := open(t, devpg.Config{Private: true, Settings: quick("").Settings})
	data := query(t, server.URL(), "SHOW data_directory")
	closeServer(t, server)
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("the folder %s is still there (%v)", data, err)
	}
}

// A test's temporary folder has mode 700. A server that root starts runs as another user and cannot
// use it.
func TestAClusterLivesElsewhereWhenItsUserCannotReachTheStateFolder(t *testing.T) {
	t.Parallel()
	dir := stateFolder(t)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	server := open(t, quick(dir))
	data := query(t, server.URL(), "SHOW data_directory")
	inside := strings.HasPrefix(data, dir+string(filepath.Separator))
	if asRoot := os.Geteuid() == 0; inside == asRoot {
		t.Errorf("run by user id %d, the cluster of %s is in %s", os.Geteuid(), dir, data)
	}
	closeServer(t, server)
	again := open(t, quick(dir))
	if got := query(t, again.URL(), "SHOW data_directory"); got != data {
		t.Errorf("the second run made another cluster, in %s instead of %s", got, data)
	}
	closeServer(t, again)
	removeCluster(t, dir) // as a machine may do with temporary folders
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	query(t, open(t, quick(dir)).URL(), "SELECT 'runs'")
}

func TestAClusterOfAnotherVersionIsLeftAloneAndNamed(t *testing.T) {
	t.Parallel()
	dir := stateFolder(t)
	closeServer(t, open(t, quick(dir)))
	version := filepath.Join(dir, "pg", "PG_VERSION")
	if err := os.WriteFile(version, []byte("8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := devpg.Open(t.Context(), quick(dir))
	if err == nil || !strings.Contains(err.Error(), "initialized by PostgreSQL version 8") {
		t.Errorf("opening it answers: %v", err)
	}
}

func TestAFolderThatIsNoClusterIsNotOverwritten(t *testing.T) {
	t.Parallel()
	dir := stateFolder(t)
	precious := filepath.Join(dir, "pg", "precious")
	if err := os.MkdirAll(precious, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := devpg.Open(t.Context(), quick(dir)); err == nil {
		t.Error("opening it succeeds")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("what was there is gone: %v", err)
	}
}

func TestASettingThatPostgresRefusesIsReportedWithItsWords(t *testing.T) {
	t.Parallel()
	_, err := devpg.Open(t.Context(), devpg.Config{
		Private:  true,
		Settings: map[string]string{"fsync": "off", "shared_buffers": "plenty"},
	})
	if err == nil || !strings.Contains(err.Error(), `"shared_buffers": "plenty"`) {
		t.Errorf("opening answers: %v", err)
	}
}
