package driver

import (
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/weirflow/weir/core"
)

// Or returns l with record and inline in place of fields that are zero.
func (l Limits) Or(record, inline int) Limits {
	if l.Record == 0 {
		l.Record = record
	}
	if l.Inline == 0 {
		l.Inline = min(inline, l.Record)
	}
	return l
}

// Check returns core.ErrUnsupported unless 0 < Inline <= Record <= most.
func (l Limits) Check(most int) error {
	if l.Inline <= 0 || l.Inline > l.Record || l.Record > most {
		return fmt.Errorf("%w: limits %+v; use 0 < Inline <= Record <= %d", core.ErrUnsupported, l, most)
	}
	return nil
}

// URLOptions calls set for each option of a store's URL, in the order of their names, until one
// is refused. An option without a value, or with several, is core.ErrUnsupported.
func URLOptions(u *url.URL, set func(name, value string) error) error {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fmt.Errorf("%w: the options of the URL cannot be parsed", core.ErrUnsupported) // err could quote a password
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if len(query[name]) != 1 {
			return fmt.Errorf("%w: the option %q is given more than once", core.ErrUnsupported, name)
		}
		if query[name][0] == "" {
			return fmt.Errorf("%w: the option %q has no value", core.ErrUnsupported, name)
		}
		if err := set(name, query[name][0]); err != nil {
			return err
		}
	}
	return nil
}
