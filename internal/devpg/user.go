package devpg

import (
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
