// Package blackbox compares the public responses of two vacants, one with closed children and one
// without. They must be equal byte for byte.
//
// The comparison covers all public routes. A new route that is not compared fails the test.
package blackbox
