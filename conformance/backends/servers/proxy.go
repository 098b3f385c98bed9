package servers

import (
	"net"
	"sync"
	"time"
)

// Faults says what a proxy does wrong, on open connections as on new ones. The zero value
// forwards faithfully.
type Faults struct {
	Delay        time.Duration // before each chunk, either way
	DropRequests bool          // the server never hears of them
	DropAnswers  bool          // the server has done the work, and the client is told nothing
	Refuse       bool          // new connections are reset at once
}

// Proxy is a TCP proxy whose faults a test switches on and off.
type Proxy struct {
	target   string
	listener net.Listener

	mu     sync.Mutex
	faults Faults
	open   map[net.Conn]struct{}
	wg     sync.WaitGroup
}

// Listen starts a proxy for target on a free port of the loopback address.
func Listen(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: l, open: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is the address to dial.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set puts new faults in place of the old ones.
func (p *Proxy) Set(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = f
}

func (p *Proxy) current() Faults {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults
}

// Cut resets every open connection.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		reset(c)
	}
}

// Close stops the proxy and resets its connections.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.Cut()
	p.wg.Wait()
	return err
}

// reset closes with RST, as a peer that was killed does.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.current().Refuse {
			reset(client)
			continue
		}
		server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
		if err != nil {
			reset(client)
			continue
		}
		p.mu.Lock()
		p.open[client], p.open[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.wg.Go(func() { p.join(client, server) })
	}
}

// join carries bytes both ways until either side ends.
func (p *Proxy) join(client, server net.Conn) {
	var both sync.WaitGroup
	both.Go(func() {
		p.carry(server, client, func(f Faults) bool { return f.DropRequests })
		_ = server.Close()
	})
	both.Go(func() {
		p.carry(client, server, func(f Faults) bool { return f.DropAnswers })
		_ = client.Close()
	})
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, client)
	delete(p.open, server)
}

// carry copies until src ends or dst takes no more.
func (p *Proxy) carry(dst, src net.Conn, lost func(Faults) bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			time.Sleep(p.current().Delay)
			if !lost(p.current()) {
				if _, werr := dst.Write(buf[:n]); werr != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}
