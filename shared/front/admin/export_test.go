package admin

// ReadSpawning is readSpawning, for the fuzzer.
var ReadSpawning = readSpawning
