// Package blackbox compares the public responses of two vacants, one with
// closed children and one without: they are equal byte for byte.
//
// Invariant: the comparison covers every public route; a new route that is not
// compared fails the test.
package blackbox
