package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// rawConn is the part of a connection of modernc.org/sqlite that is used. Package
// database/sql is left out: its pool would close connections when it sees fit (and with it a
// database in memory), and it copies each value once more.
type rawConn interface {
	sqldriver.Conn
	sqldriver.ConnPrepareContext
}

// conn is one connection with its prepared statements, used by one goroutine at a time.
type conn struct {
	raw   rawConn
	stmts map[string]rawStmt
}

type rawStmt interface {
	sqldriver.StmtExecContext
	sqldriver.StmtQueryContext
	Close() error
}

// dial opens one connection. SQLite opens the file itself at the first statement.
func dial(ctx context.Context, connector sqldriver.Connector) (*conn, error) {
	raw, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	rc, ok := raw.(rawConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("connection of type %T cannot prepare statements", raw), raw.Close())
	}
	return &conn{raw: rc, stmts: map[string]rawStmt{}}, nil
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

// prepared returns the statement for a query text of this package, compiling it once.
func (c *conn) prepared(ctx context.Context, query string) (rawStmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	s, err := c.raw.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	rs, ok := s.(rawStmt)
	if !ok {
		return nil, errors.Join(fmt.Errorf("statement of type %T takes no context", s), s.Close())
	}
	c.stmts[query] = rs
	return rs, nil
}

// exec runs a statement to its end.
func (c *conn) exec(ctx context.Context, query string, args ...any) (sqldriver.Result, error) {
	s, err := c.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, named(args))
}

// query calls row for each row until it returns false. The values belong to row.
func (c *conn) query(ctx context.Context, query string, args []any, row func([]sqldriver.Value) bool) (err error) {
	s, err := c.prepared(ctx, query)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(ctx, named(args))
	if err != nil {
		return err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	vals := make([]sqldriver.Value, len(rows.Columns()))
	for {
		// A query that has begun is interrupted in its first step only.
		if err := ctx.Err(); err != nil {
			return err
		}
		switch err := rows.Next(vals); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if !row(vals) {
			return nil
		}
	}
}

// queryRow returns the first row, or nil if there is none.
func (c *conn) queryRow(ctx context.Context, query string, args ...any) ([]sqldriver.Value, error) {
	var first []sqldriver.Value
	err := c.query(ctx, query, args, func(vals []sqldriver.Value) bool {
		first = vals
		return false
	})
	return first, err
}

func named(args []any) []sqldriver.NamedValue {
	nvs := make([]sqldriver.NamedValue, len(args))
	for i, a := range args {
		nvs[i] = sqldriver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return nvs
}

// text returns a value as text, whatever type another program gave it.
func text(v sqldriver.Value) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case nil:
		return ""
	}
	return fmt.Sprint(v)
}

// number returns an INTEGER column, and whether it is one (and not NULL).
func number(v sqldriver.Value) (int64, bool) {
	n, ok := v.(int64)
	return n, ok
}

// begin starts a write transaction at once: one that starts as a reader and is upgraded at
// its first write fails with SQLITE_BUSY_SNAPSHOT, which no timeout helps against.
func (c *conn) begin(ctx context.Context) error {
	_, err := c.exec(ctx, "BEGIN IMMEDIATE")
	if err != nil {
		// It may have begun all the same when it was the context that ended the call.
		c.rollback(ctx)
	}
	return err
}

// commit ends a transaction. Nothing waits from BEGIN IMMEDIATE on (with a write-ahead log),
// so it is not interrupted: half-known outcomes are worse than a millisecond.
func (c *conn) commit(ctx context.Context) error {
	_, err := c.exec(context.WithoutCancel(ctx), "COMMIT")
	if err != nil {
		c.rollback(ctx)
	}
	return err
}

// rollback gives up a transaction if there is one. SQLite has rolled back some failures by
// itself; then this statement fails, and that says nothing.
func (c *conn) rollback(ctx context.Context) {
	_, _ = c.exec(context.WithoutCancel(ctx), "ROLLBACK")
}
