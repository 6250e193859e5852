// Package server installs and runs LocalStack without Docker, for local deployments and for tests.
// It uses real CloudFormation templates, real function binaries as plain processes, and real
// conditional writes.
//
// An install in the cache is complete or absent. A server listens on loopback only and writes only
// into its own directory, except for an index of Python entry points in the cache. Stop ends all
// processes of the server, including suspended ones. It recognises them by the directory of the
// run, which is in their command lines. Unless the server is detached, its processes also end when
// the process that started it ends.
package server
