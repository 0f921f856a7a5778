package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
)

const (
	// StreamStatements limits how many different statements a stream has: each is prepared once per connection.
	StreamStatements = 16

	// streamFlush is how many statements are written at once.
	streamFlush = 256
)

// duplex writes and reads at the same time, so neither side waits for the other to take what it has
// written. After an error, or the end of ctx, the connection's state is unknown, and duplex closes
// it.
func (p *Pipeline) duplex(ctx context.Context, write func(*writer) error, read func(*pgproto3.Frontend) error) error {
	conn := p.Conn.PgConn()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = conn.Conn().SetDeadline(time.Unix(1, 0)) // long ago: reads and writes give up
		close(interrupted)
	})
	frontend := conn.Frontend()
	written := make(chan error, 1)
	go func() { written <- write(&writer{frontend: frontend, types: p.Conn.TypeMap()}) }()
	err := read(frontend)
	if err != nil {
		_ = conn.Conn().SetDeadline(time.Unix(1, 0))
	}
	writeErr := <-written
	if !stop() {
		<-interrupted
		err = errors.Join(ctx.Err(), err)
	}
	if err = errors.Join(err, writeErr); err != nil {
		_ = p.Conn.Close(expired())
		return fmt.Errorf("stream statements: %w", err)
	}
	return nil
}

// refusal is an argument that cannot be encoded.
type refusal struct {
	index int
	err   error
}

type writer struct {
	frontend *pgproto3.Frontend
	types    *pgtype.Map
	builder  pgx.ExtendedQueryBuilder
	pending  int // statements and Syncs not sent yet
}

// run writes a Bind and an Execute for each statement. It stops at an argument that cannot be encoded.
func (w *writer) run(queries []*pgx.QueuedQuery, statements map[string]*pgconn.StatementDescription) (*refusal, error) {
	var statement *pgconn.StatementDescription
	last := ""
	for i, q := range queries {
		if q.SQL != last {
			statement, last = statements[q.SQL], q.SQL
		}
		if err := w.builder.Build(w.types, statement, q.Arguments); err != nil {
			return &refusal{i, err}, nil
		}
		w.frontend.SendBind(&pgproto3.Bind{
			PreparedStatement: statement.Name, ParameterFormatCodes: w.builder.ParamFormats,
			Parameters: w.builder.ParamValues,
		})
		w.frontend.SendExecute(&pgproto3.Execute{})
		if err := w.sent(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// sync writes a Sync: after a failure the server skips to it.
func (w *writer) sync() error {
	w.frontend.SendSync(&pgproto3.Sync{})
	return w.sent()
}

func (w *writer) sent() error {
	if w.pending++; w.pending < streamFlush {
		return nil
	}
	w.pending = 0
	return w.frontend.Flush()
}

// receive reads until the server is ready again. It returns how many statements completed, and the
// failure of the next one.
func (p *Pipeline) receive(frontend *pgproto3.Frontend) (done int, failure *pgconn.PgError, err error) {
	for {
		message, err := frontend.Receive()
		if err != nil {
			return done, failure, err
		}
		switch m := message.(type) {
		case *pgproto3.CommandComplete, *pgproto3.EmptyQueryResponse:
			done++
		case *pgproto3.ErrorResponse:
			failure = pgconn.ErrorResponseToPgError(m)
			if failure.Severity == "FATAL" {
				return done, failure, failure
			}
		case *pgproto3.NoticeResponse:
			if p.Notice != nil {
				p.Notice(p.Conn.PgConn(), (*pgconn.Notice)(pgconn.ErrorResponseToPgError((*pgproto3.ErrorResponse)(m))))
			}
		case *pgproto3.ReadyForQuery:
			return done, failure, nil
		}
	}
}

// expired returns a context that has ended: a connection closed under it sends nothing to the server.
func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
