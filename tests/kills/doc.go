// Package kills kills hosts with SIGKILL at every store call, every blob call and
// every socket write of a request, and checks the remaining data: resending the
// request returns the stored reply, or `pending` and then `unanswered`, or is
// accepted again; and verify finds no damage.
//
// The places are one table (table_test.go). A request that makes a call outside
// the table fails the tests, so no place can be forgotten.
//
// Two kinds of hosts are killed: `vacancy dev`, which is this test binary run
// again as the real command with hooks that kill it; and functions/message, the
// built binary, killed by the proxy for DynamoDB Local and by the Runtime API.
package kills
