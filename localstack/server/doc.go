// Package server installs and runs LocalStack without Docker, for local deployments and for tests.
// Functions run as plain processes.
//
// A server listens on loopback only and writes only into its own directory and the cache. Unless
// the server is detached, its processes end when the process that started it ends.
package server
