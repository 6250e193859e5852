// Package blackbox holds what a host shows outside against what its vacants
// are inside: a vacant with closed children, and the same vacant without, have
// the same public face, byte for byte.
//
// It imports front/serve, floors 1 to 4 and what they need to run in memory.
// The invariant: every public route that there is takes part; a route that is
// added and is not compared fails the test.
package blackbox
