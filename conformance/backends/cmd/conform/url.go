package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite" // for its version

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	_ "github.com/weirflow/weir/persistence/dynamodb"  // links the driver in
	_ "github.com/weirflow/weir/persistence/firestore" // links the driver in
	_ "github.com/weirflow/weir/persistence/redis"     // links the driver in
)

// openURL judges what persistence.Open opens: with the time of day for a clock, and with the
// limits that the store has.
func (b *backend) openURL(ctx context.Context, scheme, storeURL string) error {
	storeURL = isolated(scheme, storeURL)
	b.harness.Shared = !strings.Contains(storeURL, placeholder)
	handle := func(ctx context.Context, o conformance.Options) (driver.Driver, error) {
		return persistence.OpenDriver(ctx, strings.ReplaceAll(storeURL, placeholder, o.Namespace))
	}
	d, err := handle(ctx, conformance.Options{Namespace: "weir_probe"})
	if err != nil {
		return err
	}
	// One that only answers later is judged as one that does not.
	if _, err := d.Get(ctx, driver.Partition("cf-probe").Head()); err != nil && !errors.Is(err, core.ErrNotFound) {
		return errors.Join(fmt.Errorf("the store does not answer: %w", err), d.Close())
	}
	if _, ok := d.(driver.BatchPutter); ok {
		b.harness.Capabilities = append(b.harness.Capabilities, conformance.BatchPut)
	}
	if _, ok := d.(driver.BatchDeleter); ok {
		b.harness.Capabilities = append(b.harness.Capabilities, conformance.BatchDelete)
	}
	b.driver = strings.TrimPrefix(reflect.TypeOf(d).String(), "*") + " " + version(moduleOf(d))
	b.server = serverOf(ctx, scheme, storeURL)
	b.harness.Reopen = func(t conformance.T, o conformance.Options) (driver.Driver, error) { return handle(t.Context(), o) }
	b.harness.New = func(t conformance.T, o conformance.Options) (driver.Driver, error) {
		if !b.harness.Shared {
			t.Cleanup(func() { empty(context.WithoutCancel(t.Context()), t, handle, o) })
		}
		return handle(t.Context(), o)
	}
	return d.Close()
}

// isolated adds the place of the namespace to the URLs of which it is known.
func isolated(scheme, storeURL string) string {
	if !strings.HasPrefix(scheme, "redis") || strings.Contains(storeURL, placeholder) || strings.Contains(storeURL, "prefix=") {
		return storeURL
	}
	sep := "?"
	if strings.Contains(storeURL, "?") {
		sep = "&"
	}
	return storeURL + sep + "prefix=" + placeholder + ":"
}

// empty deletes what a case has left in its namespace.
func empty(ctx context.Context, t conformance.T, handle func(context.Context, conformance.Options) (driver.Driver, error), o conformance.Options) {
	d, err := handle(ctx, o)
	if err != nil {
		t.Logf("what the case wrote stays: %v", err)
		return
	}
	for e, err := range d.Partitions(ctx, driver.ListOptions{}) {
		if err != nil {
			break
		}
		for r, err := range d.Range(ctx, e.Partition, driver.RangeOptions{KeysOnly: true}) {
			if err == nil {
				_ = d.Delete(ctx, e.Partition.Sibling(r.Sort), driver.Condition{})
			}
		}
		_ = d.Delete(ctx, e.Partition.Head(), driver.Condition{})
	}
	_ = d.Close()
}

// moduleOf returns the module of a driver, which is the package of its type in Weir.
func moduleOf(d driver.Driver) string {
	t := reflect.TypeOf(d)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath()
}

// serverOf asks the server what it is, where there is a way known.
func serverOf(ctx context.Context, scheme, storeURL string) string {
	const unknown = "unknown; say it with -server"
	u, err := url.Parse(strings.ReplaceAll(storeURL, placeholder, "x"))
	if err != nil || scheme != "redis" && scheme != "rediss" {
		return unknown
	}
	u.RawQuery = ""
	o, err := goredis.ParseURL(u.String())
	if err != nil {
		return unknown
	}
	c := goredis.NewClient(o)
	defer func() { _ = c.Close() }()
	info := map[string]string{}
	for line := range strings.Lines(c.Info(ctx, "server").Val()) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[key] = value
	}
	switch {
	case info["valkey_version"] != "":
		return "Valkey " + info["valkey_version"]
	case info["redis_version"] != "":
		return "Redis " + info["redis_version"]
	}
	return unknown
}

func sqliteVersion() (string, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return "", err
	}
	var v string
	err = db.QueryRow("SELECT sqlite_version()").Scan(&v)
	return "SQLite " + v, errors.Join(err, db.Close())
}
