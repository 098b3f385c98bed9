package dynamodb

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
)

func TestURL(t *testing.T) {
	for text, want := range map[string]location{
		"dynamodb://Flow_states.v1-x":                                      {table: "Flow_states.v1-x"},
		"dynamodb://flows/":                                                {table: "flows"},
		"dynamodb://flows?region=eu-central-1":                             {table: "flows", region: "eu-central-1"},
		"dynamodb://flows?profile=dev&timeout=5s":                          {table: "flows", profile: "dev", timeout: 5 * time.Second},
		"dynamodb://flows?region=r&endpoint=http%3A%2F%2F127.0.0.1%3A8000": {table: "flows", region: "r", endpoint: "http://127.0.0.1:8000"},
		"dynamodb://flows?region=r&endpoint=https://db.example.com":        {table: "flows", region: "r", endpoint: "https://db.example.com"},
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseURL(u); err != nil || got != want {
			t.Errorf("%s: %+v, %v\nwant %+v", text, got, err, want)
		}
	}
}

func TestURLRefusedByName(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	for text, mention := range map[string]string{
		"dynamodb:":                          "names no table",
		"dynamodb:flows":                     "names no table",
		"dynamodb://":                        "names no table",
		"dynamodb://key:secret@flows":        "credentials",
		"dynamodb://flows/path":              "path",
		"dynamodb://flows#x":                 "#",
		"dynamodb://flows":                   "region",
		"dynamodb://fl?region=r":             `"fl"`,
		"dynamodb://flows:8000?region=r":     `"flows:8000"`,
		"dynamodb://flows?ttl=5":             `"ttl"`,
		"dynamodb://flows?Region=r":          `"Region"`,
		"dynamodb://flows?region=r&region=s": `"region"`,
		"dynamodb://flows?region=":           `"region"`,
		"dynamodb://flows?timeout=0s":        "timeout",
		"dynamodb://flows?timeout=5":         "timeout",
		"dynamodb://flows?endpoint=db:8000":  "endpoint",
		"dynamodb://flows?profile=nobody":    "nobody",
		"dynamodb://flows?region=r&endpoint=http://key:secret@db:8000": "endpoint",
	} {
		_, err := persistence.Open(t.Context(), text)
		if !errors.Is(err, core.ErrUnsupported) || !strings.Contains(err.Error(), mention) {
			t.Errorf("%s: %v, want ErrUnsupported that mentions %s", text, err, mention)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the secret is in the error: %v", text, err)
		}
	}
}

// Opening makes no request, so an address where nobody is does no harm; closing twice is fine.
func TestURLOpens(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	d, err := persistence.Open(t.Context(), "dynamodb://flows?region=us-east-1&timeout=1s&endpoint=http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := d.LoadState(ctx, "f"); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("load where nobody is: %v", err)
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}
