// Package e2e runs the stories of users as scripts. Each file testdata/*.txtar is one story or one
// attack. A script runs the command line in separate processes and, if the story needs a host,
// `vacancy dev` on loopback.
package e2e
