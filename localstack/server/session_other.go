//go:build !unix

package server

import "os/exec"

// lock does nothing here, where LocalStack does not run either.
func lock(string) (release func(), err error) { return func() {}, nil }

func detach(*exec.Cmd) {}
