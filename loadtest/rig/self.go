package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// Server is a running copy of this very program in another role.
type Server struct {
	*Process
	Addr string
}

// StartSelf starts this program again with args. It must listen on a port of its own choice
// and write the address as the first line of its standard output.
func (r *Rig) StartSelf(ctx context.Context, name string, args ...string) (*Server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	said := make(chan string, 1)
	var text []byte // written by one goroutine, that of the process's output
	p, err := r.Start(Spec{Name: name, Path: self, Args: args, Out: func(b []byte) {
		if text = append(text, b...); len(said) == 0 {
			if line, _, whole := bytes.Cut(text, []byte{'\n'}); whole {
				said <- strings.TrimSpace(string(line))
			}
		}
	}})
	if err != nil {
		return nil, err
	}
	s := &Server{Process: p}
	return s, await(ctx, p, 10*time.Second, func(context.Context) error {
		select {
		case s.Addr = <-said:
			return nil
		default:
			return errors.New("it has not said its address")
		}
	})
}
