// Package lambda runs built Lambda functions as AWS does, for tests: it serves
// the Runtime API to a bootstrap, freezes it between invocations, and kills it
// when a test asks.
//
// Invariants: one invocation at a time, as in an execution environment; a
// process ends with its test, frozen or not.
//
// The package is empty on Windows, which has no SIGSTOP.
package lambda
