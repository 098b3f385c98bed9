package sqlite

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

func init() {
	persistence.Register("sqlite", func(ctx context.Context, u *url.URL) (driver.Driver, error) {
		cfg, err := parseURL(u)
		if err != nil {
			return nil, err
		}
		d, err := Open(ctx, cfg)
		if err != nil {
			return nil, err // not d: a nil *Driver is no nil interface
		}
		return d, nil
	})
}

// parseURL reads sqlite:relative.db, sqlite:/absolute.db, sqlite:///absolute.db and
// sqlite::memory:, with %XX for the characters that mean something in a URL.
func parseURL(u *url.URL) (Config, error) {
	var cfg Config
	switch {
	case u.Host != "" || u.User != nil:
		return cfg, unsupported("the URL names a host; write sqlite:relative.db or sqlite:///absolute.db")
	case u.Fragment != "":
		return cfg, unsupported("the URL has a '#'; write %23 where it belongs to the path")
	}
	cfg.Path = u.Path
	if u.Opaque != "" {
		path, err := url.PathUnescape(u.Opaque)
		if err != nil {
			return cfg, unsupported("the path has a '%' that escapes nothing; write %25")
		}
		cfg.Path = path
	}
	err := driver.URLOptions(u, func(name, value string) error { return setOption(&cfg, name, value) }, unsupported)
	return cfg, err
}

// setOption sets what a query option of the URL says.
func setOption(c *Config, name, value string) (err error) {
	switch name {
	case "mode":
		if value != "ro" && value != "rw" {
			return unsupported("option mode: use ro or rw, not " + strconv.Quote(value))
		}
		c.ReadOnly = value == "ro"
		return nil
	case "synchronous":
		c.Synchronous = Synchronous(strings.ToUpper(value))
		return nil
	case "busy_timeout":
		c.BusyTimeout, err = parseTimeout(value)
	case "history":
		c.History, err = positive(value)
	case "readers":
		c.Readers, err = positive(value)
	default:
		return unsupported("unknown option " + strconv.Quote(name) + " in the URL; there are busy_timeout, history, mode, readers and synchronous")
	}
	if err != nil {
		return unsupported("option " + name + ": " + strconv.Quote(value) + " is not " + err.Error())
	}
	return nil
}

// parseTimeout reads 5s or, as the pragma has it, 5000 for milliseconds.
func parseTimeout(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if ms, aerr := strconv.ParseInt(value, 10, 32); aerr == nil {
		d, err = time.Duration(ms)*time.Millisecond, nil
	}
	if err != nil || d <= 0 {
		return 0, errors.New("a duration over 0, for example 5s, or a number of milliseconds")
	}
	return d, nil
}

func positive(value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return 0, errors.New("a number of 1 or more")
	}
	return n, nil
}
