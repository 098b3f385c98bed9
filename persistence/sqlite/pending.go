package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

var _ driver.ForeignRequests = (*Driver)(nil)

// The statements about CrewAI's pending rows, of which a flow has one at most.
const (
	selectPending = `SELECT id, CAST(created_at AS TEXT), CAST(context_json AS BLOB), CAST(state_json AS BLOB)
	FROM pending_feedback WHERE flow_uuid = ?1 ORDER BY id DESC LIMIT 1`

	deletePending = `DELETE FROM pending_feedback WHERE flow_uuid = ?1`
)

// pendingRow is a row of pending_feedback as it stands.
type pendingRow struct {
	name    string // made of all that is in the row
	created string
	context []byte
	state   []byte
}

// ForeignRequest returns the request in the flow's row of pending_feedback.
func (d *Driver) ForeignRequest(ctx context.Context, p driver.Partition) (core.ForeignRequest, error) {
	var row *pendingRow
	err := d.read(ctx, "read a pending request", func(ctx context.Context, c *conn, l layout) (err error) {
		if l.pending {
			row, err = getPending(ctx, c, p)
		}
		return err
	})
	if err == nil && row == nil {
		err = core.ErrNotFound
	}
	if err != nil {
		return core.ForeignRequest{}, err
	}
	return row.request(string(p))
}

// PutAnswer writes the head and removes the flow's row of pending_feedback, in one
// transaction, if cond holds and the row is still the one of that name.
func (d *Driver) PutAnswer(ctx context.Context, p driver.Partition, r driver.Record, cond driver.Condition, requestID string) (driver.Tag, error) {
	k := p.Head()
	return d.put(ctx, k, r, func(ctx context.Context, c *conn, tag driver.Tag) error {
		row, err := getPending(ctx, c, p)
		if err != nil {
			return err
		}
		if row == nil || row.name != requestID {
			return d.conflict(ctx, c, k)
		}
		if err := d.putHead(ctx, c, k, r, tag, cond); err != nil {
			return err
		}
		_, err = c.exec(ctx, deletePending, string(p))
		return err
	})
}

// getPending reads the flow's row, nil if it has none.
func getPending(ctx context.Context, c *conn, p driver.Partition) (*pendingRow, error) {
	v, err := c.queryRow(ctx, selectPending, string(p))
	if err != nil || v == nil {
		return nil, err
	}
	row := &pendingRow{created: text(v[1]), context: blob(v[2]), state: blob(v[3])}
	id, _ := number(v[0])
	sum := sha256.New()
	for _, part := range []string{string(p), row.created, string(row.context), string(row.state)} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	fmt.Fprintf(sum, "%d", id) // a question that is repeated to the letter is another one
	row.name = hex.EncodeToString(sum.Sum(nil)[:16])
	return row, nil
}

// crewContext is what Weir reads of context_json. Older versions of CrewAI leave fields out.
// Which language model classifies answers (llm) is left to the flow's definition, and
// requested_at, a local time without a zone, to created_at.
type crewContext struct {
	FlowID    string                     `json:"flow_id"`
	FlowClass string                     `json:"flow_class"`
	Method    string                     `json:"method_name"`
	Output    json.RawMessage            `json:"method_output"`
	Message   string                     `json:"message"`
	Emit      []string                   `json:"emit"`
	Default   string                     `json:"default_outcome"`
	Metadata  map[string]json.RawMessage `json:"metadata"`
}

// request reads the row as the request it stands for.
func (p *pendingRow) request(flowID string) (core.ForeignRequest, error) {
	var c crewContext
	if err := json.Unmarshal(p.context, &c); err != nil {
		return core.ForeignRequest{}, corruptPending("its context_json: %w", err)
	}
	switch {
	case c.FlowID == "":
		return core.ForeignRequest{}, corruptPending("its context_json has no flow_id")
	case c.FlowID != flowID:
		return core.ForeignRequest{}, corruptPending("its context_json is of the flow %.80q", c.FlowID)
	case c.Method == "":
		return core.ForeignRequest{}, corruptPending("its context_json has no method_name")
	}
	return core.ForeignRequest{
		ID: p.name, FlowID: flowID, Flow: c.FlowClass, Method: c.Method, Message: c.Message, Outcomes: c.Emit, Default: c.Default,
		Output: c.Output, Metadata: texts(c.Metadata), At: parseTime(p.created), State: p.state,
	}, nil
}

func corruptPending(format string, args ...any) error {
	return fmt.Errorf("%w: sqlite: the flow's row in pending_feedback: %w; repair or delete it", core.ErrCorrupt, fmt.Errorf(format, args...))
}

// texts makes texts of JSON values: strings are what they say.
func texts(values map[string]json.RawMessage) map[string]string {
	if len(values) == 0 {
		return nil
	}
	out := make(map[string]string, len(values))
	for key, raw := range values {
		var s string
		if raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
			out[key] = s
			continue
		}
		var compact bytes.Buffer
		_ = json.Compact(&compact, raw) // it was just read as JSON
		out[key] = compact.String()
	}
	return out
}
