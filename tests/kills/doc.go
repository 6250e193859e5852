// Package kills ends hosts with kill -9 at every call to the store and every
// write to a socket that a request makes, and looks at what is left: the same
// request sent again gets the stored reply, or hears `pending` and then
// `unanswered`, or is accepted again; and verify finds nothing broken.
//
// The places are one table (table_test.go). A request that makes a call which
// is not in it fails the tests, so no place can be forgotten.
//
// It dies in two homes: `vacancy dev`, which is this test binary run again as
// the real command with seams that kill it, and functions/message, the built
// binary, killed by the proxy before DynamoDB Local and by the Runtime API.
package kills
