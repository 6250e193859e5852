package kms

// ParsePublicKey is the parser of what the service sends.
var ParsePublicKey = parsePublicKey
