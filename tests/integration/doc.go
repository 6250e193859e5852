// Package integration tests the deployed host: the real stacks, functions and
// command line on a LocalStack of its own, through Function URLs wherever a
// caller would use them.
//
//	go test ./tests/integration -timeout 15m            what every run proves
//	go test ./tests/integration -calls 10000 -run Calls the long load
//
// With VACANCY_TEST_STAGE the main stage is that deployed stage, of the operator's credentials and
// $VACANCY_HOME, and tests that need a local AWS are skipped (tests/realaws).
//
// Invariants: a test asks for the stage that it needs and creates its own
// vacants and callers there, so it passes without the others, and in any order;
// everything started here is stopped here; a fault is injected into one stage's
// function and removed with its test.
package integration
