package devpg

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// plainID is the user and group where the machine has none of the names that unprivileged looks for.
// Most systems give this number to their unprivileged user.
const plainID = 65534

// unprivileged answers whom the server runs as: nil means the current user, which is right for everyone but root.
func unprivileged() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return &syscall.Credential{Uid: plainID, Gid: plainID}
}

// ownerOf answers whom an existing cluster must be run as: its owner.
func ownerOf(data string) (*syscall.Credential, error) {
	info, err := os.Stat(data)
	if err != nil {
		return nil, fmt.Errorf("look at the cluster: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return nil, fmt.Errorf("look at the cluster: the owner of %s is unknown", data)
	case int(owner.Uid) == os.Geteuid() && owner.Uid != 0:
		return nil, nil
	case os.Geteuid() != 0:
		return nil, fmt.Errorf("the cluster %s belongs to user id %d and this is user id %d: run as that user or as root, "+
			"or remove the folder",
			data, owner.Uid, os.Geteuid())
	case owner.Uid == 0:
		return nil, fmt.Errorf("the cluster %s belongs to root, and Postgres refuses to run as root: chown it to another "+
			"user or remove it", data)
	}
	return &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}, nil
}
