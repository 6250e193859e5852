// Package server installs and runs LocalStack without Docker, for local deployments and for tests.
// It uses real CloudFormation templates, real function binaries as plain processes, and real
// conditional writes.
//
// An install in the cache is complete or absent. A server listens on loopback only and writes only
// into its own directory. Stop, or the end of the starting process, ends all processes of the
// server, running or stopped. Only processes whose command line names the directory of the run are
// ended.
package server
