package dynamodb

import (
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// What the zero Config stands for.
const (
	defaultTimeout = 30 * time.Second
	// maxItem is what DynamoDB allows an item, attribute names included.
	maxItem = 400 << 10
)

// recordsSuffix makes the name of the siblings' table.
const recordsSuffix = "_records"

// tableName is DynamoDB's rule for names, with room for the suffix.
var tableName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,247}$`)

// Config says which table to use, and how. Client and Table are needed.
type Config struct {
	// Client is the SDK's own: it brings region, credentials, endpoint, retries and tracing,
	// and stays the caller's. Its retries are the only ones for throttling and lost replies.
	Client *dynamodb.Client

	// Table holds the heads, in the layout of the Python package. The siblings go to the
	// table of this name with "_records" after it. Both are made when they are first written.
	Table string

	// Timeout bounds each request with all its retries; 0 is 30 s. A context that ends
	// sooner ends it sooner. Making a table has a bound of its own, of 5 minutes.
	Timeout time.Duration

	// Limits are the sizes the Store plans with; zero fields take 400 KiB a record, of which
	// all stays as it is, so that other programs can read a state as long as possible. A
	// smaller Inline has states over it compressed, which saves write units, and hides them
	// from other programs.
	Limits driver.Limits

	// Now is the clock that judges expiry; nil is time.Now.
	Now func() time.Time

	// Logger takes the warning that TTL could not be enabled, at most once for each table;
	// nil is slog.Default.
	Logger *slog.Logger
}

// withDefaults returns the config with its zero values filled in, or why it cannot be used.
func (c Config) withDefaults() (Config, error) {
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	c.Limits = c.Limits.Or(maxItem, maxItem)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	switch {
	case c.Client == nil:
		return c, unsupported("Config.Client is nil; make one with dynamodb.NewFromConfig")
	case !tableName.MatchString(c.Table):
		return c, unsupported(fmt.Sprintf("table %q; use 3 to 247 of the characters a-z A-Z 0-9 _ . -", c.Table))
	case c.Timeout < 0 || c.Timeout > 24*time.Hour:
		return c, unsupported(fmt.Sprintf("timeout %v; use up to 24h", c.Timeout))
	}
	return c, c.Limits.Check(maxItem, unsupported)
}

func unsupported(what string) error { return fmt.Errorf("%w: dynamodb: %s", core.ErrUnsupported, what) }
