package devpg_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

func TestAClusterInMemoryGoesWithItsStateFolder(t *testing.T) {
	t.Parallel()
	dir := stateFolder(t)
	closeServer(t, open(t, quick(dir)))
	home := clusterHome(dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	query(t, open(t, quick(stateFolder(t))).URL(), "SELECT 'runs'")
	if _, err := os.Stat(home); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s, which nobody uses, is still there when another cluster is made: %v", home, err)
	}
}

func TestAClusterThatTheMachineHasForgottenIsMadeAnew(t *testing.T) {
	t.Parallel()
	dir := stateFolder(t)
	closeServer(t, open(t, quick(dir)))
	if err := os.RemoveAll(clusterHome(dir)); err != nil { // as a restart of the machine does with its memory
		t.Fatal(err)
	}
	query(t, open(t, quick(dir)).URL(), "SELECT 'runs'")
}
