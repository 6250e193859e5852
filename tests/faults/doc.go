// Package faults runs the call pipeline over DynamoDB Local. It tests the facts of package
// calltest, every request of a call with every fault of a network and a service, and the cost of a
// call in round trips and write units.
package faults
