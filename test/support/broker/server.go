package broker

import (
	"bufio"
	"encoding/json"
	"net"
	"slices"
	"sync"
	"testing"
)

// Server is a broker. It listens on its own port of the loopback interface.
type Server struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	down     string
	refuse   func(Arrival) (reason string, forGood bool)
	arrivals []Arrival
	asked    int
}

// Start starts a broker, which stops at the end of the test.
func Start(t testing.TB) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{listener: listener, conns: map[net.Conn]bool{}}
	s.serving.Go(s.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		s.mu.Lock()
		for conn := range s.conns {
			_ = conn.Close()
		}
		s.conns = nil
		s.mu.Unlock()
		s.serving.Wait()
	})
	return s
}

// Addr returns the broker's address.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Down makes the broker refuse everything with the reason. An empty reason ends this.
func (s *Server) Down(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = reason
}

// Refuse sets a function that is called for each event. The broker refuses events for which it
// returns a reason.
func (s *Server) Refuse(refuse func(Arrival) (reason string, forGood bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = refuse
}

// Arrivals returns the accepted events of a publisher under a topic, in order.
func (s *Server) Arrivals(topic, publisher string) (arrivals []Arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.arrivals {
		if a.Topic == topic && a.Publisher == publisher {
			arrivals = append(arrivals, a)
		}
	}
	return arrivals
}

// Taken returns the number of accepted events.
func (s *Server) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.arrivals)
}

// Asked returns the number of batches and health checks that were answered, with any result.
func (s *Server) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.conns == nil {
			_ = conn.Close()
		} else {
			s.conns[conn] = true
			s.serving.Go(func() { s.serve(conn) })
		}
		s.mu.Unlock()
	}
}

// serve accepts events as they arrive, so the events of a batch that is cut off stay accepted.
func (s *Server) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, conn)
	}()
	in, out := json.NewDecoder(bufio.NewReader(conn)), json.NewEncoder(conn)
	var reply answer
	var refused []string // campaigns
	for index := 0; ; {
		var l line
		if in.Decode(&l) != nil {
			return
		}
		if l.Event != nil {
			if denied := s.take(*l.Event, &refused); denied != nil {
				denied.Index = index
				reply.Refused = append(reply.Refused, *denied)
				if denied.outage { // even if the outage ends before the batch does
					reply.Down = denied.Reason
				}
			}
			index++
		}
		if !l.Last {
			continue
		}
		s.mu.Lock()
		s.asked++
		if s.down != "" {
			reply.Down = s.down
		}
		s.mu.Unlock()
		if out.Encode(reply) != nil {
			return
		}
		reply, refused, index = answer{}, nil, 0
	}
}

// take accepts an event, or returns why not.
func (s *Server) take(a Arrival, refused *[]string) *denial {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(*refused, a.Campaign) {
		return &denial{NotTried: true}
	}
	if s.down != "" {
		*refused = append(*refused, a.Campaign) // the outage may end before the batch does
		return &denial{Reason: s.down, outage: true}
	}
	if s.refuse != nil {
		if reason, forGood := s.refuse(a); reason != "" {
			*refused = append(*refused, a.Campaign)
			return &denial{Reason: reason, ForGood: forGood}
		}
	}
	s.arrivals = append(s.arrivals, a)
	return nil
}
