//go:build unix

package sqlite

import (
	"errors"
	"syscall"
)

// isReadOnlyFS reports whether the file system refused a write; Go has no name for it.
func isReadOnlyFS(err error) bool { return errors.Is(err, syscall.EROFS) }
