package firestore

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	gcp "cloud.google.com/go/firestore"
	"google.golang.org/genproto/googleapis/type/latlng"

	"github.com/weirflow/weir/core"
)

// appendJSON writes a value of Firestore as JSON, keys sorted. What JSON has no type for comes
// from other programs: a timestamp is written as RFC 3339, bytes as base64, a reference as its
// path, a point as an object, a vector as an array.
func appendJSON(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case float64:
		return appendDouble(b, v), nil
	case string:
		return appendString(b, v), nil
	case map[string]any:
		return appendObject(b, v)
	case []any:
		return appendArray(b, v)
	case time.Time:
		return appendString(b, v.UTC().Format(time.RFC3339Nano)), nil
	case []byte:
		return appendString(b, base64.StdEncoding.EncodeToString(v)), nil
	case *gcp.DocumentRef:
		return appendString(b, v.Path), nil
	case *latlng.LatLng:
		return appendObject(b, map[string]any{"latitude": v.GetLatitude(), "longitude": v.GetLongitude()})
	case gcp.Vector64:
		return appendVector(b, v), nil
	case gcp.Vector32:
		wide := make(gcp.Vector64, len(v))
		for i, f := range v {
			wide[i] = float64(f)
		}
		return appendVector(b, wide), nil
	}
	return nil, fmt.Errorf("%w: firestore: the document holds a value of type %T", core.ErrUnsupported, value)
}

func appendObject(b []byte, object map[string]any) (_ []byte, err error) {
	b = append(b, '{')
	for i, key := range slices.Sorted(maps.Keys(object)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, key), ':')
		if b, err = appendJSON(b, object[key]); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendArray(b []byte, array []any) (_ []byte, err error) {
	b = append(b, '[')
	for i, v := range array {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendJSON(b, v); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendVector(b []byte, v gcp.Vector64) []byte {
	b = append(b, '[')
	for i, f := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendDouble(b, f)
	}
	return append(b, ']')
}

// appendString writes a string, which is valid UTF-8 wherever it comes from Firestore.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // of a string: never
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
