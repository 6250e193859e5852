// Package lambda runs the built Lambda functions for tests. Like AWS, it serves the Runtime API to
// a bootstrap and freezes its process between invocations. It kills the process if a test requests
// it.
//
// A process has one invocation at a time, as in an execution environment. It ends with its test,
// even if it is frozen.
//
// The package is empty on Windows, which has no SIGSTOP.
package lambda
