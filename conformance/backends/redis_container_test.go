package backends_test

import (
	"context"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirflow/weir/conformance/backends/servers"
)

// TestRedis8 and TestValkey8 run the suite on the servers that distributions do not have yet.
// Where WEIR_TEST_REDIS names servers, these are tested in their place.
func TestRedis8(t *testing.T) { containerSuite(t, "redis 8 container", servers.Redis8()) }

func TestValkey8(t *testing.T) { containerSuite(t, "valkey 8 container", servers.Valkey8()) }

func containerSuite(t *testing.T, name string, image servers.Image) {
	t.Helper()
	given, err := servers.Endpoints("WEIR_TEST_REDIS")
	if err != nil {
		t.Fatal(err)
	}
	if len(given) > 0 {
		t.Logf("WEIR_TEST_REDIS names %d servers, which TestRedisServer uses", len(given))
		return
	}
	const pull = 5 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), pull)
	defer cancel()
	server, err := servers.StartContainer(ctx, image)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, server) })
	redisSuite(t, name, func() goredis.UniversalClient { return clientOf(t, "redis://"+server.Addr) })
}
