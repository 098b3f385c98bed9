package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/weirflow/weir/core/flow"
)

// screen prints one line a turn, and below it a progress bar where a person is looking.
type screen struct {
	out      *os.File
	s        *session
	terminal bool

	saved  flow.StateSaved // of the method that finishes next
	pruned int
}

func newScreen(out *os.File, s *session) *screen {
	info, err := out.Stat()
	return &screen{out: out, s: s, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// observe prints a line when a turn is stored. Events come in order, one at a time.
func (sc *screen) observe(_ context.Context, e flow.Event) {
	switch e := e.(type) {
	case flow.StateSaved:
		sc.saved, sc.pruned = e, 0
	case flow.MessagesPruned:
		sc.pruned = len(e.Pruned)
	case flow.MethodFinished:
		if e.Method != "route" {
			sc.line(e.Method)
		}
	}
}

func (sc *screen) line(method string) {
	sc.clear()
	fmt.Fprintf(sc.out, "%s  turn %3d/%d  %-8s kept %3d  pruned %3d  %6d bytes  revision %v\n", sc.s.talk.flowID,
		sc.s.cursor, len(sc.s.talk.messages), method, sc.s.kept-sc.pruned, sc.pruned, sc.saved.Bytes, sc.saved.Revision)
	if total := len(sc.s.talk.messages); sc.terminal && total > 0 {
		const width = 40
		full := width * sc.s.cursor / total
		fmt.Fprintf(sc.out, "[%s%s] %d/%d", strings.Repeat("#", full), strings.Repeat(".", width-full), sc.s.cursor, total)
	}
}

// clear removes the progress bar.
func (sc *screen) clear() {
	if sc.terminal {
		fmt.Fprint(sc.out, "\r\x1b[K")
	}
}
