package driver_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// refuse is how a driver refuses a configuration.
func refuse(why string) error { return fmt.Errorf("%w: mine: %s", core.ErrUnsupported, why) }

func TestLimitsAreFilledInAndChecked(t *testing.T) {
	for _, c := range []struct{ given, want driver.Limits }{
		{driver.Limits{}, driver.Limits{Record: 100, Inline: 10}},
		{driver.Limits{Record: 5}, driver.Limits{Record: 5, Inline: 5}},
		{driver.Limits{Inline: 7}, driver.Limits{Record: 100, Inline: 7}},
	} {
		if got := c.given.Or(100, 10); got != c.want || got.Check(100, refuse) != nil {
			t.Errorf("%+v is filled in as %+v", c.given, got)
		}
	}
	for _, bad := range []driver.Limits{{}, {Record: -1, Inline: -1}, {Record: 5, Inline: 6}, {Record: 101, Inline: 1}, {Record: 5}} {
		if err := bad.Check(100, refuse); !errors.Is(err, core.ErrUnsupported) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestURLOptionsAreGivenOnce(t *testing.T) {
	read := func(query string) (got []string, err error) {
		err = driver.URLOptions(&url.URL{RawQuery: query}, func(name, value string) error {
			if got = append(got, name+"="+value); name == "bad" {
				return core.ErrDenied
			}
			return nil
		}, refuse)
		return got, err
	}
	if got, err := read("c&b=2&a=1%20"); err != nil || !reflect.DeepEqual(got, []string{"a=1 ", "b=2", "c="}) {
		t.Errorf("%q, %v", got, err)
	}
	for query, says := range map[string]string{"a=1&a=1": "more than once", "a=%zz": "parsed"} {
		if got, err := read(query); !errors.Is(err, core.ErrUnsupported) || !strings.Contains(err.Error(), says) || got != nil {
			t.Errorf("%s: %q, %v", query, got, err)
		}
	}
	if got, err := read("z=1&bad=1"); !errors.Is(err, core.ErrDenied) || len(got) != 1 {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPagesAreReadAsTheLoopComesToThem(t *testing.T) {
	broken := errors.New("broken")
	pages, read := [][]int{{1, 2}, nil, {3}}, 0
	next := func(context.Context) (page []int, more bool, err error) {
		if read++; read > len(pages) {
			return []int{9}, true, broken
		}
		return pages[read-1], read < len(pages), nil
	}
	var got []int
	for v, err := range driver.Pages(t.Context(), next) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, v); v < 3 && read != 1 {
			t.Errorf("page %d was read before the loop was through with the first", read)
		}
	}
	if !slices.Equal(got, []int{1, 2, 3}) || read != 3 {
		t.Errorf("%v of %d pages", got, read)
	}
	for v, err := range driver.Pages(t.Context(), next) {
		if v != 0 || !errors.Is(err, broken) {
			t.Errorf("%d, %v", v, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, got = 0, nil
	var last error
	for v, err := range driver.Pages(ctx, next) {
		cancel()
		got, last = append(got, v), err
	}
	if !errors.Is(last, context.Canceled) || !slices.Equal(got, []int{1, 0}) || read != 1 {
		t.Errorf("%v, %v, %d pages", got, last, read)
	}
	read = 0
	for range driver.Pages(t.Context(), next) {
		break
	}
	if read != 1 {
		t.Errorf("a loop that was left read %d pages", read)
	}
}
