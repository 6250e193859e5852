// Package localstack proves localstack/server on a real server: a function as a
// plain process, what is recorded of it, and what can be done to it.
package localstack
