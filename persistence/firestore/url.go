package firestore

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	gcp "cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

func init() {
	persistence.Register("firestore", func(ctx context.Context, u *url.URL) (driver.Driver, error) {
		a, err := parseURL(u)
		if err != nil {
			return nil, err
		}
		d, err := a.open(ctx)
		if err != nil {
			return nil, err // not d: a nil *Driver is no nil interface
		}
		return d, nil
	})
}

// address is what a URL says.
type address struct {
	project  string
	database string // "" is the default one
	emulator string // host:port; "" is Google, or FIRESTORE_EMULATOR_HOST
	cfg      Config
}

// parseURL reads firestore://project/collection?option=value.
func parseURL(u *url.URL) (address, error) {
	var a address
	a.project, a.cfg.Collection = u.Host, strings.TrimPrefix(u.Path, "/")
	switch {
	case u.User != nil:
		return a, unsupported("the URL names a user; credentials are found by Google's client library")
	case u.Opaque != "" || a.project == "" || u.Port() != "":
		return a, unsupported("write firestore://project/collection; the host of an emulator is the option emulator")
	case u.Fragment != "":
		return a, unsupported("the URL has a '#'; write %23 where it belongs to the collection")
	}
	return a, driver.URLOptions(u, a.set, unsupported)
}

// set sets what an option says.
func (a *address) set(name, value string) error {
	if value == "" {
		return unsupported("the option " + strconv.Quote(name) + " has no value")
	}
	switch name {
	case "database":
		a.database = value
	case "emulator":
		a.emulator = value
	case "tenant":
		a.cfg.TenantPrefix = value
	case "timeout":
		timeout, err := time.ParseDuration(value)
		if err != nil || timeout <= 0 {
			return unsupported("option timeout: " + strconv.Quote(value) + " is not a duration over 0, for example 30s")
		}
		a.cfg.Timeout = timeout
	default:
		return unsupported("unknown option " + strconv.Quote(name) + " in the URL; there are database, emulator, tenant and timeout")
	}
	return nil
}

// open makes the client and the driver that closes it.
func (a *address) open(ctx context.Context) (*Driver, error) {
	var opts []option.ClientOption
	if a.emulator != "" {
		conn, err := grpc.NewClient(a.emulator,
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(owner{}))
		if err != nil {
			return nil, unsupported("option emulator: " + err.Error())
		}
		opts = append(opts, option.WithGRPCConn(conn))
	}
	database := a.database
	if database == "" {
		database = gcp.DefaultDatabaseID
	}
	client, err := gcp.NewClientWithDatabase(ctx, a.project, database, opts...)
	if err != nil {
		return nil, fmt.Errorf("%w: firestore: no client for project %q: %w", core.ErrDenied, a.project, err)
	}
	a.cfg.Client = client
	d, err := Open(ctx, a.cfg)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	d.close = client.Close
	return d, nil
}

// owner is who may do everything on an emulator. It asks for it where documents are listed.
type owner struct{}

func (owner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

func (owner) RequireTransportSecurity() bool { return false }
