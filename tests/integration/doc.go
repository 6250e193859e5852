// Package integration tests a deployed host: the stacks, functions and command line on a LocalStack
// server of its own. Requests use Function URLs wherever a caller would use them.
//
//	go test ./tests/integration -timeout 15m            what every run tests
//	go test ./tests/integration -calls 10000 -run Calls the long load
//
// If VACANCY_TEST_STAGE is set, the main stage is that deployed stage, with the operator's
// credentials and $VACANCY_HOME, and tests that need a local AWS are skipped (see tests/realaws).
//
// A test gets the stage that it needs and creates its own vacants and callers there, so it passes
// without the other tests and in any order. It stops everything that it starts. A fault is injected
// into a function of one stage and removed with its test.
package integration
