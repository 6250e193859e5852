// Package server installs and runs LocalStack without Docker, for the laptop
// home and for tests: real CloudFormation templates, real function binaries as
// plain processes, real conditional writes.
//
// It may import localstack/plugin, tests/dynamolocal (whose install of DynamoDB
// Local it shares) and shared/problem. The invariants: an install is in the
// cache whole or not at all; a server listens on loopback only and writes into
// its own directory only; Stop, or the end of the process that started it, leaves
// no process of it, running or stopped; and no process is ever ended but one
// whose command line names the directory of the run.
package server
