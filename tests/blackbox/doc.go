// Package blackbox holds what a host shows outside against what its vacants are
// inside: a vacant with closed children, and the same vacant without, have the
// same public face, byte for byte.
//
// The invariant: every public route that there is takes part; a route that is
// added and is not compared fails the test.
package blackbox
