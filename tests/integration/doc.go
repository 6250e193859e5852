// Package integration proves the host as it is deployed: the real stacks, the
// real functions and the real command line on a LocalStack of its own, through
// Function URLs and nothing else where a caller would use nothing else.
//
//	go test ./tests/integration -timeout 15m            what every run proves
//	go test ./tests/integration -calls 10000 -run Calls the long load
//
// It may import everything but infra. The invariants: a test asks for the
// stage that it needs and makes vacants and callers of its own there, so that
// it passes alone and in any order; whatever is started here is ended here; a
// fault is planned for one stage's function, and forgotten with its test.
package integration
