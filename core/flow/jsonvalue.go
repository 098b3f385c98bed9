package flow

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/weirflow/weir/core"
)

var rawType = reflect.TypeFor[json.RawMessage]()

// encodeJSON encodes without changing <, > and & into escapes, which only pages need.
func encodeJSON(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	raw := bytes.TrimRight(b.Bytes(), "\n")
	if bytes.Contains(raw, []byte(replaced)) {
		if err := validText(reflect.ValueOf(v), ""); err != nil {
			return nil, err
		}
	}
	return raw, nil
}

// replaced is what encoding/json writes, without an error, for each byte of a string that is
// not valid UTF-8. It may also stand in JSON that v holds ready-made, where it is right.
const replaced = `\ufffd`

// validText looks for the string that is not valid UTF-8.
func validText(v reflect.Value, path string) error {
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return &core.StateError{Path: path, Reason: "a string is not valid UTF-8"}
		}
	case reflect.Pointer, reflect.Interface:
		return validText(v.Elem(), path)
	case reflect.Struct:
		return validFields(v, path)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil // ready-made JSON, or bytes that become base64
		}
		for i := range v.Len() {
			if err := validText(v.Index(i), fmt.Sprintf("%s/%d", path, i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			err := cmp.Or(validText(it.Key(), path), validText(it.Value(), path+"/"+fmt.Sprint(it.Key())))
			if err != nil {
				return err
			}
		}
	default:
	}
	return nil
}

func validFields(v reflect.Value, path string) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() && !f.Anonymous || f.Tag.Get("json") == "-" {
			continue
		}
		if err := validText(v.Field(i), path+"/"+f.Name); err != nil {
			return err
		}
	}
	return nil
}

// decodeJSON decodes one value. Numbers that go into an interface stay text (json.Number),
// so that none is rounded.
func decodeJSON(data []byte, v any) error {
	return decode(data, v, false)
}

// decodeStrict refuses fields that v does not have.
func decodeStrict(data []byte, v any) error {
	return decode(data, v, true)
}

func decode(data []byte, v any, strict bool) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if strict {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more text after the value")
	}
	return nil
}

// encodeState encodes a state, which must come out as an object; a nil map is an empty one.
func encodeState(state any) (json.RawMessage, error) {
	raw, err := encodeJSON(state)
	if err != nil {
		return nil, fmt.Errorf("%w: a state of type %T cannot be encoded: %w", core.ErrInvalidState, state, err)
	}
	if string(raw) == "null" {
		return json.RawMessage("{}"), nil
	}
	if raw[0] != '{' {
		return nil, fmt.Errorf("%w: a state of type %T does not encode to a JSON object", core.ErrInvalidState, state)
	}
	return raw, nil
}

// object is a JSON object whose members are in order and not decoded.
type object []member

type member struct {
	key   string
	value json.RawMessage
}

func parseObject(data []byte) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	var o object
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		o = append(o, member{key.(string), value})
	}
	return o, nil
}

func (o object) get(key string) (json.RawMessage, bool) {
	i := slices.IndexFunc(o, func(m member) bool { return m.key == key })
	if i < 0 {
		return nil, false
	}
	return o[i].value, true
}

// with returns o with a member set: in its place if it has one, else at the end.
func (o object) with(key string, value json.RawMessage) object {
	o = slices.Clone(o)
	if i := slices.IndexFunc(o, func(m member) bool { return m.key == key }); i >= 0 {
		o[i].value = value
		return o
	}
	return append(o, member{key, value})
}

func (o object) without(key string) object {
	return slices.DeleteFunc(slices.Clone(o), func(m member) bool { return m.key == key })
}

// over lays o over the defaults below: a member of o is taken whole, one that o lacks is
// kept.
func (o object) over(below object) object {
	out := slices.Clone(below)
	at := make(map[string]int, len(out)+len(o))
	for i, m := range out {
		at[m.key] = i
	}
	for _, m := range o {
		if i, have := at[m.key]; have {
			out[i] = m
			continue
		}
		at[m.key] = len(out)
		out = append(out, m)
	}
	return out
}

func (o object) encode() json.RawMessage {
	out := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		key, _ := encodeJSON(m.key) // a string always encodes
		out = append(append(append(out, key...), ':'), m.value...)
	}
	return append(out, '}')
}
