// Package discovery finds vacants at registries by capability, chooses one and calls it (PROTOCOL
// §16).
//
// A Client searches its registries for a Query, rates each Match by its Policy and calls the best
// one. Registries are not trusted: they learn neither messages nor callers, and each match is
// verified before use. "The reference" is the reference implementation of the protocol, whose
// registries lack some routes.
package discovery
