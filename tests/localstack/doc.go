// Package localstack tests localstack/server with a running server: a function as a process, the
// recording of its invocations, and the control of its process.
package localstack
