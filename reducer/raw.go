package reducer

import (
	"context"
	"encoding/json"
)

// A rawSource is a job's messages as JSON.
type rawSource struct {
	n     int // of the input
	raws  [][]byte
	h     *history
	price TokenCounter // of what is added
}

func (s *rawSource) history() *history      { return s.h }
func (s *rawSource) inputs() int            { return s.n }
func (s *rawSource) describe(i int) Message { return s.h.describe(i) }

func (r *Reducer) strictJSON(ctx context.Context, messages []byte, raws [][]byte) (Result, error) {
	src := &rawSource{n: len(raws), raws: raws, h: parse(raws), price: r.cfg.CountTokens}
	if r.cfg.MaxTokens > 0 {
		for i := range src.h.items {
			src.h.items[i].tokens = max(0, r.cfg.CountTokens(raws[i]))
		}
	}
	out, err := r.strict(ctx, src)
	if err != nil {
		return Result{}, err
	}
	if !out.changed {
		return unchanged(messages, out.Report), nil
	}
	return Result{
		Messages: src.write(out.kept),
		Pruned:   src.copies(out.pruned),
		Changed:  true,
		Report:   out.Report,
	}, nil
}

// write writes messages as a JSON array.
func (s *rawSource) write(seq []int) json.RawMessage {
	size := 2
	for _, i := range seq {
		size += len(s.raws[i]) + 1
	}
	out := append(make([]byte, 0, size), '[')
	for k, i := range seq {
		if k > 0 {
			out = append(out, ',')
		}
		out = append(out, s.raws[i]...)
	}
	return append(out, ']')
}

// copies copies messages into one piece of memory.
func (s *rawSource) copies(seq []int) []json.RawMessage {
	if len(seq) == 0 {
		return nil
	}
	size := 0
	for _, i := range seq {
		size += len(s.raws[i])
	}
	all := make([]byte, 0, size)
	out := make([]json.RawMessage, len(seq))
	for k, i := range seq {
		from := len(all)
		all = append(all, s.raws[i]...)
		out[k] = all[from:len(all):len(all)]
	}
	return out
}

// add writes an addition in the dialect of the message it is like.
func (s *rawSource) add(a addition) (added []int) {
	var like []byte
	if a.like >= 0 {
		like = s.raws[a.like]
	}
	list := [][]byte{}
	if a.role == Tool {
		list = writeAnswers(like, a.calls, a.text)
	} else {
		list = append(list, writeText(like, a.role, a.text))
	}
	for _, raw := range list {
		one := parse([][]byte{raw})
		it := one.items[0]
		it.tokens = max(0, s.price(raw))
		s.h.items = append(s.h.items, item{})
		s.h.put(len(s.h.items)-1, it, one.callsOf(0), one.resultsOf(0))
		s.raws = append(s.raws, raw)
		added = append(added, len(s.raws)-1)
	}
	return added
}
