package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/weirflow/weir/core/flow/internal/scheduler"
)

// fingerprint is what is stored of a graph, so that a later program can say what changed.
type fingerprint struct {
	flow    string
	sum     string
	methods map[string]string // a short hash of each method
	encoded json.RawMessage   // the methods, ready to be stored
}

func newFingerprint(flow string, nodes []scheduler.Method) fingerprint {
	f := fingerprint{flow: flow, methods: make(map[string]string, len(nodes))}
	lines := make([]string, 0, len(nodes))
	for i := range nodes {
		hash := digest(signature(&nodes[i]))[:8]
		f.methods[nodes[i].Name] = hash
		lines = append(lines, fmt.Sprintf("%q %s\n", nodes[i].Name, hash))
	}
	sort.Strings(lines)
	f.sum = digest(fmt.Sprintf("%q\n%s", flow, strings.Join(lines, "")))[:16]
	f.encoded, _ = encodeJSON(f.methods) // strings always encode
	return f
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// signature writes a method's part of the graph in a form that two graphs can be compared
// by. The order in which labels are declared means nothing.
func signature(m *scheduler.Method) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %v ", m.Role, m.Dynamic)
	writeCondition(&b, m.On)
	labels := slices.Clone(m.Emits)
	slices.Sort(labels)
	fmt.Fprintf(&b, " %q", labels)
	return b.String()
}

func writeCondition(b *strings.Builder, c *scheduler.Cond) {
	switch {
	case c == nil:
		b.WriteString("-")
	case c.Op == scheduler.Leaf:
		fmt.Fprintf(b, "%q", c.Name)
	default:
		fmt.Fprintf(b, "%d(", c.Op)
		for _, child := range c.Children {
			writeCondition(b, child)
			b.WriteString(",")
		}
		b.WriteString(")")
	}
}

// compare returns nil if f is the graph that was stored under these names and hashes, else
// what differs.
func (f *fingerprint) compare(flow string, methods map[string]string) *ChangedError {
	e := &ChangedError{Flow: f.flow, Was: flow}
	for name, hash := range f.methods {
		switch was, ok := methods[name]; {
		case !ok:
			e.Added = append(e.Added, name)
		case was != hash:
			e.Changed = append(e.Changed, name)
		}
	}
	for name := range methods {
		if _, ok := f.methods[name]; !ok {
			e.Removed = append(e.Removed, name)
		}
	}
	if flow == f.flow && len(e.Added)+len(e.Removed)+len(e.Changed) == 0 {
		return nil
	}
	slices.Sort(e.Added)
	slices.Sort(e.Removed)
	slices.Sort(e.Changed)
	return e
}
