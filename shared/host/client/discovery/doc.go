// Package discovery finds vacants at registries by capability, chooses one and
// calls it (PROTOCOL §16). Programs import its Client.
//
// The invariants: registries are not trusted. They learn no message and no
// caller, and each match is verified before use. No question goes to a second
// vacant while the first may have accepted it.
package discovery
