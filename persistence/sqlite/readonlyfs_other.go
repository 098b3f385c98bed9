//go:build !unix

package sqlite

// isReadOnlyFS reports whether the file system refused a write; elsewhere than on Unix that
// is a permission.
func isReadOnlyFS(error) bool { return false }
