package redisstore

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// A proxy stands between a client and a server, and can lose an answer.
type proxy struct {
	net.Listener
	server string
	cut    atomic.Bool // lose the next answer to a script, and the connection with it
	lost   atomic.Int64

	mu    sync.Mutex
	conns []net.Conn
}

func startProxy(t *testing.T, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, server: server}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for _, conn := range p.conns {
			conn.Close()
		}
		p.mu.Unlock()
		serving.Wait()
	})
	return p
}

// serve carries the bytes of one connection.
func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	var script atomic.Bool // the client waits for the answer to one
	go func() {
		defer server.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := client.Read(buf)
			if err != nil {
				return
			}
			script.Store(bytes.Contains(buf[:n], []byte("evalsha")))
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		if script.Load() && p.cut.CompareAndSwap(true, false) {
			p.lost.Add(1)
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}
