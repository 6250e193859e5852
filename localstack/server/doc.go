// Package server installs and runs LocalStack without Docker, for local
// deployments and for tests: real CloudFormation templates, real function
// binaries as plain processes, real conditional writes.
//
// The invariants: an install in the cache is complete or absent. A server
// listens on loopback only and writes into its own directory only. Stop, or the
// end of the starting process, leaves no process of it, running or stopped.
// Only processes whose command line names the directory of the run are ended.
package server
