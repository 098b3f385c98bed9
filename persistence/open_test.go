package persistence_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

func TestOpenSaysWhatToDo(t *testing.T) {
	for storeURL, want := range map[string]string{
		"redis://user:secret@host/0": "add import _ \"github.com/weirflow/weir/persistence/redis\"",
		"nosuch://user:secret@host":  "unknown URL scheme",
		"weir.db":                    "has no scheme",
		"mem:what":                   "takes nothing",
		"mem://%zz:secret@":          "cannot be parsed",
	} {
		_, err := persistence.Open(t.Context(), storeURL)
		if !errors.Is(err, core.ErrUnsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", storeURL, err)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error tells the password: %v", storeURL, err)
		}
	}
}

func TestAnErrorOfAnOpenerKeepsItsKind(t *testing.T) {
	persistence.Register("test-down", func(context.Context, *url.URL) (driver.Driver, error) { return nil, core.ErrUnavailable })
	if _, err := persistence.Open(t.Context(), "TEST-DOWN:x"); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestRegisteringASchemeTwicePanics(t *testing.T) {
	open := func(context.Context, *url.URL) (driver.Driver, error) { return nil, core.ErrUnsupported }
	persistence.Register("test-twice", open)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	persistence.Register("test-twice", open)
}
