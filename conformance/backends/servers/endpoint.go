package servers

import (
	"fmt"
	"os"
	"strings"
)

// Endpoint is a server that somebody else runs.
type Endpoint struct {
	Name string // for reports
	URL  string // as persistence.Open takes it
}

// Endpoints reads name=url,name=url from an environment variable. An unset one is none.
func Endpoints(variable string) ([]Endpoint, error) {
	var es []Endpoint
	for part := range strings.SplitSeq(os.Getenv(variable), ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, url, ok := strings.Cut(part, "=")
		if !ok || name == "" || !strings.Contains(url, ":") {
			// Not the value: it can hold a password.
			return nil, fmt.Errorf("%s: want name=url, several with a comma between them", variable)
		}
		es = append(es, Endpoint{Name: name, URL: url})
	}
	return es, nil
}
