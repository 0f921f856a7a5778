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
	// streamFrom is how many statements of projections in a row are worth a round trip of their own.
	streamFrom = 256

	// StreamStatements is how many different ones there may be among them: each is prepared, once a connection.
	StreamStatements = 16

	// streamFlush is how many are written at once.
	streamFlush = 256
)

// run is a part of a batch.
type run struct {
	from, to int
	stream   bool // many statements of projections whose results are not read
}

// runs cuts a batch where it pays to stream.
func runs(queries []*pgx.QueuedQuery, origins []Origin) []run {
	var all []run
	done := 0
	for from := 0; from < len(queries); {
		to, last, texts := from, "", map[string]bool{}
		for to < len(queries) && to < len(origins) && queries[to].Fn == nil && origins[to].Projection != "" {
			if sql := queries[to].SQL; sql != last { // quick where it is the same constant
				texts[sql], last = true, sql
			}
			to++
		}
		if to-from >= streamFrom && len(texts) <= StreamStatements {
			if from > done {
				all = append(all, run{from: done, to: from})
			}
			all, done = append(all, run{from, to, true}), to
		}
		from = max(to, from+1)
	}
	if done < len(queries) {
		all = append(all, run{from: done, to: len(queries)})
	}
	return all
}

// stream runs statements whose results are not read, in one round trip. It does what a batch would
// do, without asking for and looking at a description of each result, and without waiting to read
// while it writes; a batch of one UPSERT an event spends a fifth of its time on that. It returns
// the index of the statement that failed.
func (p *Pipeline) stream(ctx context.Context, queries []*pgx.QueuedQuery) (failed int, err error) {
	statements := map[string]*pgconn.StatementDescription{}
	for i, q := range queries {
		if statements[q.SQL] == nil {
			if statements[q.SQL], err = p.Conn.Prepare(ctx, q.SQL, q.SQL); err != nil {
				return i, err
			}
		}
	}
	var done int
	var failure *pgconn.PgError
	var refused *refusal
	err = p.duplex(ctx, func(w *writer) (err error) {
		if refused, err = w.run(queries, statements); err == nil {
			err = w.sync()
		}
		return errors.Join(err, w.frontend.Flush())
	}, func(frontend *pgproto3.Frontend) (err error) {
		done, failure, err = p.receive(frontend)
		return err
	})
	switch {
	case err != nil:
		return done, err
	case failure != nil:
		return done, failure
	case refused != nil: // the server had no fault to find with those before it
		return refused.index, refused.err
	}
	return 0, nil
}

// duplex writes and reads at the same time, so that neither side waits for the other to take what
// it has written. If that fails, or ctx ends, it is unknown what is on its way: the connection is
// closed.
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

// refusal is an argument that cannot be sent.
type refusal struct {
	index int
	err   error
}

// writer writes statements that are prepared.
type writer struct {
	frontend *pgproto3.Frontend
	types    *pgtype.Map
	builder  pgx.ExtendedQueryBuilder
	pending  int // messages that are not sent yet
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

// sync has the server end what fails here.
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

// receive reads until the server is ready again. It returns how many statements were done, and the
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

// expired is a context that has ended: a connection closed under it is closed without a word to the server.
func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
