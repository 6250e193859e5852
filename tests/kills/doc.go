// Package kills kills hosts with SIGKILL at every store call, every blob call and every socket
// write of a request, and checks the remaining data. The repeated request must return the stored
// reply, or `pending` and then `unanswered`, or be accepted again. The command verify must find no
// damage.
//
// The places are one table (table_test.go). A request with a call that is not in the table fails
// the tests, so no place can be forgotten.
//
// Two kinds of hosts are killed. `vacancy dev` is this test binary, which runs as the command with
// hooks that kill it. functions/message is the built binary, which the proxy for DynamoDB Local and
// the Runtime API kill.
package kills
