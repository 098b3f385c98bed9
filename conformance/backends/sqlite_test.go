package backends_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/sqlite"
)

// sqliteOffers is what the driver can do beyond the required.
var sqliteOffers = []conformance.Capability{
	conformance.InjectedClock, conformance.PretendedLimits, conformance.BatchPut, conformance.BatchDelete,
}

// TestSQLiteFile gives every case a file of its own. What a power failure could take is not
// at stake here, so nothing waits for the disk.
func TestSQLiteFile(t *testing.T) {
	report(t, "sqlite file", "SQLite "+sqliteVersion(t), "modernc.org/sqlite")
	dir := t.TempDir()
	open := func(t conformance.T, o conformance.Options) (driver.Driver, error) {
		return sqlite.Open(t.Context(), sqlite.Config{
			Path: filepath.Join(dir, o.Namespace+".db"), Synchronous: sqlite.Off, Now: o.Now, Limits: o.Limits,
		})
	}
	conformance.Run(t, conformance.Harness{New: open, Reopen: open, Capabilities: sqliteOffers})
}

// TestSQLiteMemory has no second handle: the database lives in the first. What is above the
// driver has met the same code in a file.
func TestSQLiteMemory(t *testing.T) {
	report(t, "sqlite :memory:, driver laws", "SQLite "+sqliteVersion(t), "modernc.org/sqlite")
	conformance.Run(t, conformance.Harness{
		New: func(t conformance.T, o conformance.Options) (driver.Driver, error) {
			return sqlite.Open(t.Context(), sqlite.Config{Path: sqlite.Memory, Now: o.Now, Limits: o.Limits})
		},
		Capabilities: sqliteOffers,
		Only:         "driver",
	})
}

// TestSQLiteRealClock lets the driver judge expiry by the time of day.
func TestSQLiteRealClock(t *testing.T) {
	t.Parallel() // it waits most of the time
	report(t, "sqlite file, real clock, law 5", "SQLite "+sqliteVersion(t), "modernc.org/sqlite")
	dir := t.TempDir()
	open := func(t conformance.T, o conformance.Options) (driver.Driver, error) {
		return sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, o.Namespace+".db"), Synchronous: sqlite.Off})
	}
	conformance.Run(t, conformance.Harness{
		New: open, Reopen: open, Only: "driver/law05_expiry",
		Capabilities: []conformance.Capability{conformance.BatchPut, conformance.BatchDelete},
	})
}

func sqliteVersion(t *testing.T) string {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	var v string
	if err := db.QueryRowContext(t.Context(), "select sqlite_version()").Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
