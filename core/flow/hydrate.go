package flow

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirflow/weir/core"
)

// Inputs are values for the top-level keys of the state. The key "id" is the id of the flow
// and must be a non-empty string if it is there; without it the run gets a random one.
type Inputs map[string]any

// hydrated is the state a run begins with.
type hydrated struct {
	flowID   string
	state    json.RawMessage
	from     string        // the flow whose state was restored, or ""
	restored core.Revision // of from, at the restore
	revision core.Revision // of the flow's own record
}

// hydrate makes the state of a new run: the defaults, over them a restored state, over that
// the inputs. Each layer replaces whole top-level keys.
func (d *Definition[S]) hydrate(ctx context.Context, in Inputs, cfg *runConfig) (hydrated, error) {
	h := hydrated{}
	given, err := inputID(in)
	if err != nil {
		return h, &InputError{Flow: d.name, Err: err}
	}
	if h.flowID = given; given == "" {
		h.flowID = newUUID()
	}
	if err := core.ValidateID(h.flowID); err != nil {
		return h, fail("kickoff", h.flowID, err)
	}
	state, err := d.defaults()
	if err != nil {
		return h, &InputError{Flow: d.name, FlowID: h.flowID, Err: err}
	}
	if state, err = d.restore(ctx, &h, given, state, cfg); err != nil {
		return h, err
	}
	h.state, err = d.merge(h.flowID, state, in)
	if err != nil {
		return h, &InputError{Flow: d.name, FlowID: h.flowID, Err: err}
	}
	return h, nil
}

// defaults is the flow's initial state.
func (d *Definition[S]) defaults() (object, error) {
	raw, err := encodeState(d.initial())
	if err != nil {
		return nil, err
	}
	return parseObject(raw)
}

// restore lays the stored state over the defaults: that of the flow to fork or, if there is
// none, that of the flow the inputs name.
func (d *Definition[S]) restore(ctx context.Context, h *hydrated, given string, defaults object, cfg *runConfig) (object, error) {
	if cfg.restoring {
		if cfg.store == nil {
			return nil, fail("restore", cfg.restoreFrom, errNoStore)
		}
		snap, err := cfg.store.LoadState(ctx, cfg.restoreFrom)
		if err == nil {
			h.from, h.restored = cfg.restoreFrom, snap.Revision
			if given == cfg.restoreFrom {
				h.revision = snap.Revision
			}
			return d.overlay(snap, defaults)
		}
		if !errors.Is(err, core.ErrNotFound) || cfg.mustExist {
			return nil, fail("restore", cfg.restoreFrom, err)
		}
	}
	if given == "" || cfg.store == nil {
		return defaults, nil
	}
	snap, err := cfg.store.LoadState(ctx, given)
	switch {
	case err == nil:
		h.from, h.restored, h.revision = given, snap.Revision, snap.Revision
		return d.overlay(snap, defaults)
	case errors.Is(err, core.ErrNotFound) && !cfg.mustExist:
		return defaults, nil
	}
	return nil, fail("restore", given, err)
}

// overlay lays a stored state over the defaults and checks that the result is an S.
func (d *Definition[S]) overlay(snap core.Snapshot, defaults object) (object, error) {
	stored, err := parseObject(snap.State)
	if err != nil {
		return nil, fail("restore", snap.FlowID, fmt.Errorf("%w: the stored state: %w", core.ErrCorrupt, err))
	}
	var id string
	if raw, _ := stored.get("id"); json.Unmarshal(raw, &id) != nil || id == "" {
		return nil, fail("restore", snap.FlowID, &core.StateError{Path: "/id", Reason: "stored state must have an 'id' field"})
	}
	state := stored.over(defaults)
	if err := decodeJSON(state.encode(), new(S)); err != nil {
		return nil, fail("restore", snap.FlowID, fmt.Errorf("the stored state does not fit the flow's: %w", err))
	}
	return state, nil
}

// merge lays the inputs over the state and lets the flow's own check have the last word.
func (d *Definition[S]) merge(flowID string, state object, in Inputs) (json.RawMessage, error) {
	if len(in) > 0 {
		raw, err := encodeJSON(map[string]any(in)) // sorted by key
		if err != nil {
			return nil, err
		}
		inputs, err := parseObject(raw)
		if err != nil {
			return nil, err
		}
		inputs = inputs.without("id")
		if err := decodeStrict(inputs.encode(), new(S)); err != nil {
			return nil, err
		}
		state = inputs.over(state)
	}
	id, _ := encodeJSON(flowID) // a string always encodes
	var s S
	if err := decodeJSON(state.with("id", id).encode(), &s); err != nil {
		return nil, err
	}
	if d.prepare != nil {
		if err := d.prepare(&s); err != nil {
			return nil, err
		}
	}
	raw, err := encodeState(s)
	if err != nil {
		return nil, err
	}
	raw, stamped, err := stampID(raw, flowID)
	if err == nil && stamped != flowID {
		err = fmt.Errorf("the flow's Prepare changed the id to %q", stamped)
	}
	return raw, err
}

func inputID(in Inputs) (string, error) {
	v, given := in["id"]
	if !given {
		return "", nil
	}
	if id, ok := v.(string); ok && id != "" {
		return id, nil
	}
	return "", fmt.Errorf("the input \"id\" is %#v; it must be a non-empty string", v)
}

// stampID sees to it that an encoded state holds the flow's id, which other programs that
// read the store rely on. A state that already holds an id keeps it, and decides: the id
// found is returned. The state is validated on the way.
func stampID(state json.RawMessage, flowID string) (stamped json.RawMessage, id string, err error) {
	field, err := core.ScanState(state, "id")
	if err != nil {
		return nil, "", err
	}
	if field.Value != nil && json.Unmarshal(field.Value, &id) == nil && id != "" {
		return state, id, nil
	}
	o, err := parseObject(state)
	if err != nil {
		return nil, "", err
	}
	value, _ := encodeJSON(flowID) // a string always encodes
	return o.with("id", value).encode(), flowID, nil
}

// newUUID returns a random id (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, as documented
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
