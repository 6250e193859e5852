// Package e2e tells the user's stories as scripts: testdata/*.txtar, one per
// story or attack, each run with the real command line in processes of its own
// and, where the story needs a host, a real `vacancy dev` on loopback.
package e2e
