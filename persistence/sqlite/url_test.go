package sqlite

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
)

func TestURL(t *testing.T) {
	for text, want := range map[string]Config{
		"sqlite:weir.db":                 {Path: "weir.db"},
		"sqlite:dir/weir.db":             {Path: "dir/weir.db"},
		"sqlite:./weir.db":               {Path: "./weir.db"},
		"sqlite:/abs/weir.db":            {Path: "/abs/weir.db"},
		"sqlite:///abs/weir.db":          {Path: "/abs/weir.db"},
		"sqlite::memory:":                {Path: Memory},
		"sqlite:a%3Fb%25c%23d%20e.db":    {Path: "a?b%c#d e.db"},
		"sqlite:///a%3Fb%25c%23d%20e.db": {Path: "/a?b%c#d e.db"},
		"sqlite:x.db?mode=ro":            {Path: "x.db", ReadOnly: true},
		"sqlite:x.db?mode=rw":            {Path: "x.db"},
		"sqlite:x.db?synchronous=normal&busy_timeout=2500&history=3&readers=8": {
			Path: "x.db", Synchronous: Normal, BusyTimeout: 2500 * time.Millisecond, History: 3, Readers: 8,
		},
		"sqlite:x.db?busy_timeout=1m": {Path: "x.db", BusyTimeout: time.Minute},
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseURL(u)
		if err != nil || got.Path != want.Path || got.ReadOnly != want.ReadOnly || got.Synchronous != want.Synchronous ||
			got.BusyTimeout != want.BusyTimeout || got.History != want.History || got.Readers != want.Readers {
			t.Errorf("%s: %+v, %v\nwant %+v", text, got, err, want)
		}
	}
}

func TestURLRefusedByName(t *testing.T) {
	for text, mention := range map[string]string{
		"sqlite:":                           "path",
		"sqlite://weir.db":                  "host",
		"sqlite://u:secret@/x.db":           "host",
		"sqlite:a.db#b":                     "%23",
		"sqlite:x.db?cache=shared":          `"cache"`,
		"sqlite:x.db?_pragma=foreign_keys":  `"_pragma"`,
		"sqlite:x.db?mode=rwc":              "mode",
		"sqlite:x.db?mode=ro&mode=rw":       "more than once",
		"sqlite:x.db?synchronous=sometimes": "SOMETIMES",
		"sqlite:x.db?synchronous=":          "",
		"sqlite:x.db?history=0":             "history",
		"sqlite:x.db?readers=-1":            "readers",
		"sqlite:x.db?readers=9999":          "readers",
		"sqlite:x.db?busy_timeout=soon":     "busy_timeout",
		"sqlite::memory:?mode=ro":           "memory",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := parseURL(u)
		if err == nil {
			_, err = cfg.withDefaults()
		}
		if mention == "" { // the same as not given
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		wantErr(t, text, err, core.ErrUnsupported)
		if err != nil && (!strings.Contains(err.Error(), mention) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
