package firestore

import (
	"sync"

	"github.com/weirflow/weir/persistence/driver"
)

// maxNames bounds what is remembered, in bytes.
const maxNames = 4 << 20

// names remembers the top-level fields of documents by their tag, so that a conditional write
// can delete those it does not write itself without reading them first.
type names struct {
	mu   sync.Mutex
	size int
	docs map[string]fieldNames // by document ID
}

type fieldNames struct {
	tag   driver.Tag
	names []string
	size  int
}

func newNames() *names { return &names{docs: map[string]fieldNames{}} }

// get returns the fields of the document when it had that tag, if they are known.
func (n *names) get(id string, tag driver.Tag) ([]string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f, ok := n.docs[id]
	return f.names, ok && f.tag == tag
}

// remember notes the fields of a document, and forgets others when there is too much.
func (n *names) remember(id string, tag driver.Tag, fields []string) {
	const each = 128 // what an entry takes beside the text
	f := fieldNames{tag: tag, names: fields, size: each + len(id)}
	for _, name := range fields {
		f.size += len(name) + 16
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.size += f.size - n.docs[id].size
	n.docs[id] = f
	for other, o := range n.docs { // in random order
		if n.size <= maxNames {
			break
		}
		n.size -= o.size
		delete(n.docs, other)
	}
}
