package backends_test

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/conformance/backends/servers"
	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow/flowtest"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/sqlite"
)

// cutNetworkSeeds is how many flows are cut on each server; one takes some hundred calls.
var cutNetworkSeeds = flowtest.Seeds{To: 20}

// cutAnywhere puts a Store over the driver of a harness under the law of resume, with segments
// for all but the smallest states. Each process has a Store of its own over what the earlier
// ones left; they share the driver, as connections know nothing.
func cutAnywhere(t *testing.T, seeds flowtest.Seeds, h conformance.Harness) {
	t.Helper()
	drv, err := h.New(outliving{t}, conformance.Options{Namespace: "weir_" + strings.ToLower(rand.Text()[:12])})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := drv.Close(); err != nil {
			t.Error(err)
		}
	})
	flowtest.CutAnywhere(t, seeds, func() (core.FlowPersistence, error) {
		return persistence.New(drv, persistence.WithLimits(driver.Limits{Record: 1024, Inline: 512})), nil
	})
}

// outliving is a test whose context does not end before its driver is closed.
type outliving struct{ *testing.T }

func (o outliving) Context() context.Context { return context.WithoutCancel(o.T.Context()) }

func TestCutAnywhereSQLite(t *testing.T) {
	report(t, "sqlite file, cut anywhere", "SQLite "+sqliteVersion(t), "modernc.org/sqlite")
	path := filepath.Join(t.TempDir(), "cut.db")
	cutAnywhere(t, flowtest.Seeds{To: 200}, conformance.Harness{
		New: func(t conformance.T, _ conformance.Options) (driver.Driver, error) {
			return sqlite.Open(t.Context(), sqlite.Config{Path: path, Synchronous: sqlite.Off})
		},
	})
}

func TestCutAnywhereRedis(t *testing.T) {
	given, err := servers.Endpoints("WEIR_TEST_REDIS")
	if err != nil {
		t.Fatal(err)
	}
	if len(given) == 0 {
		given = []servers.Endpoint{{Name: "server", URL: "redis://" + startRedis(t).Addr}}
	}
	for _, e := range given {
		t.Run(e.Name, func(t *testing.T) {
			client := func() goredis.UniversalClient { return clientOf(t, e.URL) }
			c := client()
			t.Cleanup(func() { _ = c.Close() })
			report(t, "redis "+e.Name+", cut anywhere", serverVersion(t, c), redisModule)
			cutAnywhere(t, cutNetworkSeeds, redisHarness(client))
		})
	}
}

func TestCutAnywhereDynamo(t *testing.T) {
	given, err := servers.Endpoints("WEIR_TEST_DYNAMODB")
	if err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, s dynamoServer) {
		t.Helper()
		report(t, s.name+", cut anywhere", s.version, dynamoModule)
		cutAnywhere(t, cutNetworkSeeds, dynamoHarness(s, s.endpoint))
	}
	for _, e := range given {
		t.Run(e.Name, func(t *testing.T) {
			run(t, dynamoServer{name: "dynamodb " + e.Name, version: "as given", endpoint: e.URL})
		})
	}
	if len(given) == 0 {
		t.Run("dynalite", func(t *testing.T) { run(t, dynalite(t)) })
		t.Run("moto", func(t *testing.T) { run(t, moto(t)) })
	}
}

func TestCutAnywhereFirestore(t *testing.T) {
	given, err := servers.Endpoints("WEIR_TEST_FIRESTORE")
	if err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, name, addr string) {
		t.Helper()
		report(t, "firestore "+name+", cut anywhere", "the server "+name, firestoreModule)
		cutAnywhere(t, cutNetworkSeeds, firestoreHarness(addr, firestorePatience))
	}
	for _, e := range given {
		t.Run(e.Name, func(t *testing.T) { run(t, e.Name, emulatorOf(t, e.URL)) })
	}
	if len(given) == 0 {
		t.Run("emulator", func(t *testing.T) { run(t, "emulator", startFirestore(t).Addr) })
	}
}
