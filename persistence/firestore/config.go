package firestore

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	gcp "cloud.google.com/go/firestore"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// What the zero Config stands for.
const (
	// defaultCollection is the one that the Python package writes to.
	defaultCollection = "flow_states"
	defaultTimeout    = 30 * time.Second
)

// maxDocument is Firestore's limit for a document, names and overhead included.
const maxDocument = 1 << 20

// maxNameBytes is Firestore's limit for a document ID and for the name of a field.
const maxNameBytes = 1500

// Config says where flows are kept. Only Client is needed.
type Config struct {
	// Client is the SDK's own client, with its project, database, credentials and tracing. A
	// Driver uses it and leaves it open.
	Client *gcp.Client

	// Collection holds one document a flow; "" is flow_states. It may lie in a document, as
	// in tenants/acme/flow_states.
	Collection string

	// TenantPrefix stands before each flow ID in the document's ID, so that several tenants
	// share a collection and none sees another's flows. It ends with a colon and has no
	// other, so that no prefix is the beginning of another: "acme:". "" is no prefix; a
	// collection used with prefixes should not be used without.
	TenantPrefix string

	// Timeout bounds each request, the repetitions of it included; 0 is 30 s. A context that
	// ends sooner ends it sooner.
	Timeout time.Duration

	// Limits are the sizes the Store plans with; zero fields take Firestore's 1 MiB a
	// document, all of it as it is, so that other programs can read it.
	Limits driver.Limits

	// Now is the clock that judges expiry; nil is time.Now.
	Now func() time.Time
}

// tenantPrefix keeps what could make an ID illegal out of a prefix.
var tenantPrefix = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}:$`)

// withDefaults returns the config with its zero values filled in, or why it cannot be used.
func (c Config) withDefaults() (Config, error) {
	if c.Collection == "" {
		c.Collection = defaultCollection
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	c.Limits = c.Limits.Or(maxDocument, maxDocument)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, c.validate()
}

func (c Config) validate() error {
	switch {
	case c.Client == nil:
		return unsupported("there is no Client; make one with the NewClient of cloud.google.com/go/firestore")
	case c.TenantPrefix != "" && !tenantPrefix.MatchString(c.TenantPrefix):
		return unsupported(fmt.Sprintf(`tenant prefix %q; use up to 100 letters, digits, '.', '_' and '-', and a colon at the end: "acme:"`, c.TenantPrefix))
	case c.Timeout < 0 || c.Timeout > 24*time.Hour:
		return unsupported(fmt.Sprintf("timeout %v; use up to 24h", c.Timeout))
	}
	if err := c.Limits.Check(maxDocument, unsupported); err != nil {
		return err
	}
	return validateCollection(c.Collection)
}

// validateCollection checks collection, or collection/document/collection and so on.
func validateCollection(path string) error {
	names := strings.Split(path, "/")
	if len(names)%2 == 0 {
		return unsupported(fmt.Sprintf("%q is the path of a document; name a collection", path))
	}
	for _, name := range names {
		if !utf8.ValidString(name) || !isLegalID(name) {
			return unsupported(fmt.Sprintf("collection %q: Firestore allows no name like %q", path, name))
		}
	}
	return nil
}

func unsupported(what string) error {
	return fmt.Errorf("%w: firestore: %s", core.ErrUnsupported, what)
}
