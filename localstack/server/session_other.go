//go:build !unix

package server

import "os/exec"

func detach(*exec.Cmd) {} // LocalStack does not run on this system
