package flow

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Console returns a Provider that writes each request to w and waits for one line from r, one
// request at a time. The end of r is an error. A read that has begun is not interrupted by the
// end of the context.
func Console(r io.Reader, w io.Writer) Provider {
	return &console{in: bufio.NewReader(r), out: w}
}

type console struct {
	mu  sync.Mutex
	in  *bufio.Reader
	out io.Writer
}

func (c *console) Request(ctx context.Context, r Request) (Reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		return Reply{}, ctx.Err()
	}
	var b strings.Builder
	if r.Output != nil {
		fmt.Fprintf(&b, "%s: %s\n", r.Method, r.Output)
	}
	b.WriteString(r.Message)
	if len(r.Outcomes) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(r.Outcomes, ", "))
	}
	b.WriteString(" ")
	if _, err := io.WriteString(c.out, b.String()); err != nil {
		return Reply{}, err
	}
	line, err := c.in.ReadString('\n')
	if errors.Is(err, io.EOF) && line != "" {
		err = nil
	}
	return Reply{Text: strings.TrimRight(line, "\r\n")}, err
}
