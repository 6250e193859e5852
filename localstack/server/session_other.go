//go:build !unix

package server

import "os/exec"

// detach does nothing here, where LocalStack does not run.
func detach(*exec.Cmd) {}
