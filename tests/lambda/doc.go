// Package lambda runs built Lambda functions as AWS runs them, for tests: it
// speaks the Runtime API to a bootstrap, freezes it between invocations, and
// kills it where a test says so.
//
// The invariants: one invocation at a time, as in an execution environment; a
// process that it started ends with the test, frozen or not.
//
// Not on Windows, where the package is empty: a frozen process is one that
// SIGSTOP stopped.
package lambda
