package kms

// ParsePublicKey is the parser of the service's public keys.
var ParsePublicKey = parsePublicKey
