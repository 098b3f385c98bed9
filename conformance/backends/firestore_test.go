package backends_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/conformance/backends/servers"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/firestore"
)

const firestoreModule = "cloud.google.com/go/firestore"

// firestoreOffers is what the driver can do beyond the required.
var firestoreOffers = []conformance.Capability{
	conformance.InjectedClock, conformance.PretendedLimits, conformance.BatchPut, conformance.BatchDelete,
}

// TestFirestoreServer runs the suite on the servers of WEIR_TEST_FIRESTORE, or on an emulator
// of its own with a proxy before it, which can also be out of reach.
func TestFirestoreServer(t *testing.T) {
	given, err := servers.Endpoints("WEIR_TEST_FIRESTORE")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range given {
		t.Run(e.Name, func(t *testing.T) {
			report(t, "firestore "+e.Name, "the server "+e.Name, firestoreModule)
			conformance.Run(t, firestoreHarness(emulatorOf(t, e.URL), firestorePatience))
		})
	}
	if len(given) > 0 {
		return
	}
	emulator := startFirestore(t)
	report(t, "firestore emulator", "the emulator of the Google Cloud SDK", firestoreModule)
	conformance.Run(t, firestoreHarness(emulator.Addr, firestorePatience))
	t.Run("outage", func(t *testing.T) {
		proxy, err := servers.Listen(emulator.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = proxy.Close() })
		h := firestoreHarness(proxy.Addr(), time.Second)
		h.Only = "driver/outage"
		h.Outage = func(conformance.T, conformance.Options) (end func()) {
			proxy.Set(servers.Faults{Refuse: true})
			proxy.Cut()
			return func() { proxy.Set(servers.Faults{}) }
		}
		conformance.Run(t, h)
	})
}

// firestorePatience is for an emulator that has just started, on a busy machine.
const firestorePatience = 30 * time.Second

// emulatorOf returns the host of an emulator from a URL of persistence.Open.
func emulatorOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil || u.Query().Get("emulator") == "" {
		t.Fatal("WEIR_TEST_FIRESTORE: want name=firestore://project/collection?emulator=host:port; the suite needs a database of its own for each case, and only emulators make one for each project")
	}
	return u.Query().Get("emulator")
}

func startFirestore(t testing.TB) *servers.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	emulator, err := servers.Firestore(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, emulator) })
	return emulator
}

// firestoreHarness makes a project, which is a fresh database, of each namespace, and a client
// for each handle.
func firestoreHarness(addr string, timeout time.Duration) conformance.Harness {
	open := func(t conformance.T, o conformance.Options) (driver.Driver, error) {
		client, err := firestoreClient(t.Context(), addr, o.Namespace)
		if err != nil {
			return nil, err
		}
		d, err := firestore.Open(t.Context(), firestore.Config{Client: client, Timeout: timeout, Now: o.Now, Limits: o.Limits})
		if err != nil {
			_ = client.Close()
			return nil, err
		}
		return closingFirestore{d, client}, nil
	}
	return conformance.Harness{New: open, Reopen: open, Capabilities: firestoreOffers}
}

// firestoreClient makes a client of an emulator, of which each namespace is a project.
func firestoreClient(ctx context.Context, addr, namespace string) (*gcp.Client, error) {
	conn, err := grpc.NewClient(addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(emulatorOwner{}))
	if err != nil {
		return nil, err
	}
	return gcp.NewClient(ctx, strings.ReplaceAll(namespace, "_", "-"), option.WithGRPCConn(conn))
}

// closingFirestore also closes the client, once.
type closingFirestore struct {
	*firestore.Driver
	client *gcp.Client
}

func (c closingFirestore) Close() error {
	err := c.Driver.Close()
	if cerr := c.client.Close(); cerr != nil && !strings.Contains(cerr.Error(), "closing") {
		return cerr
	}
	return err
}

// emulatorOwner is who may list documents on an emulator.
type emulatorOwner struct{}

func (emulatorOwner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

func (emulatorOwner) RequireTransportSecurity() bool { return false }
