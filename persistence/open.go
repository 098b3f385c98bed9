package persistence

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// OpenFunc opens the driver that a URL describes.
type OpenFunc func(ctx context.Context, u *url.URL) (driver.Driver, error)

// The URL mux: the only registry, and the only global state, of Weir.
var (
	openersMu sync.RWMutex
	openers   = map[string]OpenFunc{}
)

// Register makes a scheme known to Open. Driver packages call it from init; registering a
// scheme twice panics, since the program would otherwise open whichever came last.
func Register(scheme string, open OpenFunc) {
	openersMu.Lock()
	defer openersMu.Unlock()
	if _, dup := openers[scheme]; dup {
		panic(fmt.Sprintf("persistence: the URL scheme %q is registered twice", scheme))
	}
	openers[scheme] = open
}

// imports tells which import registers a scheme of Weir's own.
var imports = map[string]string{
	"mem":            "inmem",
	"sqlite":         "sqlite",
	"redis":          "redis",
	"rediss":         "redis",
	"redis+cluster":  "redis",
	"rediss+cluster": "redis",
	"redis+sentinel": "redis",
	"dynamodb":       "dynamodb",
	"firestore":      "firestore",
}

// Open opens the store that storeURL names, for example "sqlite:weir.db" or "mem:". The
// package of the driver must be imported for its side effect; an unknown scheme is
// ErrUnsupported and names the import to add. A password in the URL never appears in an
// error.
func Open(ctx context.Context, storeURL string, opts ...Option) (*Store, error) {
	d, err := OpenDriver(ctx, storeURL)
	if err != nil {
		return nil, err
	}
	return New(d, opts...), nil
}

// OpenDriver opens the driver alone, for those who judge drivers or look at raw records. Its
// errors are those of Open.
func OpenDriver(ctx context.Context, storeURL string) (driver.Driver, error) {
	scheme, _, ok := strings.Cut(storeURL, ":")
	if !ok || scheme == "" {
		return nil, &core.Error{Op: "open store", Err: fmt.Errorf("%w: the store URL has no scheme; write for example sqlite:weir.db", core.ErrUnsupported)}
	}
	scheme = strings.ToLower(scheme)
	openersMu.RLock()
	open, known := openers[scheme]
	openersMu.RUnlock()
	if !known {
		return nil, &core.Error{Op: "open store", Err: unknownScheme(scheme)}
	}
	u, err := url.Parse(storeURL)
	if err != nil {
		// The error of url.Parse quotes the URL, password and all.
		return nil, &core.Error{Op: "open store", Err: fmt.Errorf("%w: the %s URL cannot be parsed", core.ErrUnsupported, scheme)}
	}
	d, err := open(ctx, u)
	if err != nil {
		return nil, &core.Error{Op: "open store " + scheme, Err: err}
	}
	return d, nil
}

func unknownScheme(scheme string) error {
	if pkg, ours := imports[scheme]; ours {
		return fmt.Errorf("%w: the URL scheme %q is not linked in; add import _ %q",
			core.ErrUnsupported, scheme, "github.com/weirflow/weir/persistence/"+pkg)
	}
	openersMu.RLock()
	defer openersMu.RUnlock()
	known := make([]string, 0, len(openers))
	for s := range openers {
		known = append(known, s)
	}
	slices.Sort(known)
	return fmt.Errorf("%w: unknown URL scheme %q; linked in are %q", core.ErrUnsupported, scheme, known)
}
