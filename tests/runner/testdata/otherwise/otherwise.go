// Package otherwise compiles on Linux and not on Windows.
package otherwise

var name string = system
