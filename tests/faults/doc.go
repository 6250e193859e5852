// Package faults plays the call pipeline over DynamoDB Local: the facts of
// calltest; every request of a call with every fault that a network and a
// service have; what a call costs in round trips and write units.
package faults
