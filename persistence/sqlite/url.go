package sqlite

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
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
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return cfg, unsupported("the options of the URL cannot be parsed")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if len(query[name]) != 1 {
			return cfg, unsupported("the option " + strconv.Quote(name) + " is given more than once")
		}
		if err := setOption(&cfg, name, query[name][0]); err != nil {
			return cfg, err
		}
	}
	return cfg, nil
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
