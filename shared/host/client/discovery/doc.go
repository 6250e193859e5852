// Package discovery finds vacants at registries by capability, chooses one and calls it (PROTOCOL
// §16). Programs import its Client.
//
// Registries are not trusted. They learn neither messages nor callers, and each match is verified
// before use. A question does not go to a second vacant while the first may have accepted it.
//
// "The reference" is the reference implementation of the protocol, whose registries lack some
// routes.
package discovery
