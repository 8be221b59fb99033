// Package redistest starts Redis servers for tests and examples: real ones where a
// redis-server is found, else one written in Go, in this process.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// A Server is a Redis server on the loopback interface.
type Server struct {
	Addr string               // host:port
	Kind string               // what it is, in words
	Mini *miniredis.Miniredis // nil if it is a real server

	dir  string
	args []string
	cmd  *exec.Cmd // nil if the server is not ours
	own  bool      // dir is ours
}

// Any returns the server that REDIS_ADDR names; if that is not set, it starts a
// redis-server that is found on the PATH; if there is none, a miniredis. Kind says
// which.
func Any() (*Server, error) {
	if addr := os.Getenv("REDIS_ADDR"); addr != "" {
		return &Server{Addr: addr, Kind: "the server at REDIS_ADDR"}, nil
	}
	if Found() {
		return Start()
	}
	return StartMini()
}

// Found reports whether there is a redis-server on the PATH.
func Found() bool {
	_, err := exec.LookPath("redis-server")
	return err == nil
}

// StartMini starts a miniredis in this process.
func StartMini() (*Server, error) {
	mini := miniredis.NewMiniRedis()
	if err := mini.Start(); err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	return &Server{Addr: mini.Addr(), Kind: "miniredis", Mini: mini}, nil
}

// Start starts a redis-server on a free port, with an append only file in a new
// directory, and more arguments such as "--maxmemory", "10mb". It returns when the
// server answers.
func Start(args ...string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	s := &Server{
		Addr: fmt.Sprintf("127.0.0.1:%d", port),
		Kind: "a redis-server of its own",
		dir:  dir,
		own:  true,
		args: append([]string{"--bind", "127.0.0.1", "--port", fmt.Sprint(port), "--dir", dir,
			"--appendonly", "yes", "--save", "", "--daemonize", "no"}, args...),
	}
	if err := s.Run(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Run starts the server's process again after Kill, with the data that it wrote, and
// returns when it answers.
func (s *Server) Run() error {
	logFile, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	defer logFile.Close()
	s.cmd = exec.Command("redis-server", s.args...)
	s.cmd.Stdout, s.cmd.Stderr = logFile, logFile
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	if err := s.await(); err != nil {
		text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		return fmt.Errorf("redistest: redis-server does not answer: %w\n%s", err, text)
	}
	return nil
}

// await waits until the server answers.
func (s *Server) await() error {
	client := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", s.Addr) // go-redis logs it if nobody listens yet
		if err == nil {
			conn.Close()
			err = client.Ping(ctx).Err()
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Signal sends a signal to the server's process, such as SIGSTOP and SIGCONT.
func (s *Server) Signal(sig syscall.Signal) error {
	if s.cmd == nil {
		return errors.New("redistest: the server has no process of its own")
	}
	return s.cmd.Process.Signal(sig)
}

// Kill ends the server's process as kill -9 does. The data stays: see Run.
func (s *Server) Kill() error {
	if err := s.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	_ = s.cmd.Wait() // says that it was killed
	return nil
}

// Stop ends the server, if it is ours, and removes its data.
func (s *Server) Stop() {
	if s.Mini != nil {
		s.Mini.Close()
	}
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.Signal(syscall.SIGCONT)
		_ = s.Kill()
	}
	if s.own {
		_ = os.RemoveAll(s.dir)
	}
}

// freePort returns a port that nobody listens on, with room for a Cluster's second
// one, which is 10000 higher.
func freePort() (int, error) {
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, fmt.Errorf("redistest: %w", err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port > 55000 {
			continue
		}
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+10000)); err == nil {
			l.Close()
			return port, nil
		}
	}
	return 0, errors.New("redistest: no free port")
}
