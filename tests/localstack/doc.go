// Package localstack tests localstack/server on a real server: a function as a
// plain process, the recording of its invocations, and the control of its
// process.
package localstack
