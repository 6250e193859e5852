package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/localstack/server"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const (
	serverName  = "laptop" // name of the run
	defaultPort = 4566     // port in every guide to LocalStack; if it is taken, a free port is used
)

// startTimeout limits a start on a loaded machine. On an idle machine a start takes two seconds.
const startTimeout = 2 * time.Minute

// up ensures that the server runs.
func (l laptop) up(ctx context.Context) (*server.Server, error) {
	installed, err := server.Install(ctx, l.cacheDir, l.out)
	if err != nil {
		return nil, err
	}
	s, err := server.Find(l.cacheDir, serverName)
	if err == nil && s.CheckHealth(ctx) == nil {
		fmt.Fprintf(l.out, "already up: %s\n", s.URL)
		if s.PluginDir != installed.PluginDir {
			fmt.Fprintln(l.out, "the server runs another version of the plugin than this checkout; to switch, run localstack/down and localstack/up, which delete the deployment")
		}
		return s, nil
	}
	if err == nil { // the server runs but does not answer
		if err := s.Stop(); err != nil {
			return nil, err
		}
	}
	return l.start(ctx, installed)
}

func (l laptop) start(ctx context.Context, installed *server.Installation) (*server.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	startTime := time.Now()
	o := server.Options{Name: serverName, Port: defaultPort, Detached: true, Freeze: true}
	s, err := installed.Start(ctx, o)
	if problem.Is(err, problem.Conflict) {
		o.Port = 0
		s, err = installed.Start(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(l.out, "up after %.1f s: %s\nlog: %s\n", time.Since(startTime).Seconds(), s.URL, s.LogPath)
	return s, nil
}

// down ends the server, and removes the processes and directories of runs that were killed.
func (l laptop) down() error {
	s, err := server.Find(l.cacheDir, serverName)
	switch {
	case problem.Is(err, problem.NotFound):
		fmt.Fprintln(l.out, "the server was not running")
	case err != nil:
		return err
	default:
		if err := s.Stop(); err != nil {
			return err
		}
		fmt.Fprintln(l.out, "down")
	}
	return server.Clean(l.cacheDir)
}

func (l laptop) runningServer(ctx context.Context) (*server.Server, error) {
	s, err := server.Find(l.cacheDir, serverName)
	if problem.Is(err, problem.NotFound) {
		return nil, problem.New(problem.Unavailable, "the server is not up; start it with localstack/up")
	}
	if err != nil {
		return nil, err
	}
	if err := s.CheckHealth(ctx); err != nil {
		return nil, errors.Join(problem.New(problem.Unavailable, "the server does not answer; start it again with localstack/up"), err)
	}
	return s, nil
}
