package driver

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
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

// Check returns what refuse makes of the reason, unless 0 < Inline <= Record <= most.
func (l Limits) Check(most int, refuse func(why string) error) error {
	if l.Inline <= 0 || l.Inline > l.Record || l.Record > most {
		return refuse(fmt.Sprintf("limits %+v; use 0 < Inline <= Record <= %d", l, most))
	}
	return nil
}

// URLOptions calls set for each option of a store's URL, in the order of their names, until one
// is refused. For an option that is given more than once it returns what refuse makes of that.
func URLOptions(u *url.URL, set func(name, value string) error, refuse func(why string) error) error {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return refuse("the options of the URL cannot be parsed") // err could quote a password
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if len(query[name]) != 1 {
			return refuse(fmt.Sprintf("the option %q is given more than once", name))
		}
		if err := set(name, query[name][0]); err != nil {
			return err
		}
	}
	return nil
}
