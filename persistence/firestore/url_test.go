package firestore

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"
	"go.uber.org/goleak"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestURL(t *testing.T) {
	for text, want := range map[string]address{
		"firestore://my-project":                        {project: "my-project"},
		"firestore://my-project/flows":                  {project: "my-project", cfg: Config{Collection: "flows"}},
		"firestore://my-project/tenants/acme/flows":     {project: "my-project", cfg: Config{Collection: "tenants/acme/flows"}},
		"firestore://p/c?database=d&emulator=host:8080": {project: "p", database: "d", emulator: "host:8080", cfg: Config{Collection: "c"}},
		"firestore://p/c?tenant=acme:&timeout=5s":       {project: "p", cfg: Config{Collection: "c", TenantPrefix: "acme:", Timeout: 5 * time.Second}},
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseURL(u)
		if err != nil || got.project != want.project || got.database != want.database || got.emulator != want.emulator ||
			got.cfg.Collection != want.cfg.Collection || got.cfg.TenantPrefix != want.cfg.TenantPrefix || got.cfg.Timeout != want.cfg.Timeout {
			t.Errorf("%s: %+v, %v\nwant %+v", text, got, err, want)
		}
	}
}

func TestURLRefusedByName(t *testing.T) {
	for text, mention := range map[string]string{
		"firestore:":                               "project",
		"firestore:///c":                           "project",
		"firestore://u:secret@p/c":                 "user",
		"firestore://p:8080/c":                     "emulator",
		"firestore://p/c#d":                        "%23",
		"firestore://p/c?collection=d":             `"collection"`,
		"firestore://p/c?ttl=1":                    `"ttl"`,
		"firestore://p/c?timeout=soon":             "timeout",
		"firestore://p/c?timeout=-1s":              "timeout",
		"firestore://p/c?database=":                `"database"`,
		"firestore://p/c?tenant=a:&tenant=b":       "more than once",
		"firestore://p/c/d?emulator=x:1":           "document",
		"firestore://p/__c__?emulator=x:1":         "__c__",
		"firestore://p/c?emulator=x:1&tenant=acme": "colon",
		"firestore://p/c?emulator=x:1&tenant=a:b:": "colon",
	} {
		_, err := persistence.Open(t.Context(), text)
		if !errors.Is(err, core.ErrUnsupported) || !strings.Contains(err.Error(), mention) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want it to mention %s", text, err, mention)
		}
	}
}

func TestURLOpensWithoutARequest(t *testing.T) {
	s, err := persistence.Open(t.Context(), "firestore://p/c?emulator=localhost:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestConfig(t *testing.T) {
	client := &gcp.Client{}
	for name, c := range map[string]Config{
		"no client":         {},
		"a document's path": {Client: client, Collection: "a/b"},
		"an empty name":     {Client: client, Collection: "a//b"},
		"a negative time":   {Client: client, Timeout: -1},
		"a large record":    {Client: client, Limits: driver.Limits{Record: 1<<20 + 1}},
		"a large inline":    {Client: client, Limits: driver.Limits{Record: 1000, Inline: 1001}},
	} {
		if _, err := Open(t.Context(), c); !errors.Is(err, core.ErrUnsupported) {
			t.Errorf("%s: %v, want %v", name, err, core.ErrUnsupported)
		}
	}
	c, err := Config{Client: client}.withDefaults()
	if err != nil || c.Collection != "flow_states" || c.Timeout != 30*time.Second || c.Limits != (driver.Limits{Record: 1 << 20, Inline: 1 << 20}) {
		t.Errorf("defaults %+v, %v", c, err)
	}
}
