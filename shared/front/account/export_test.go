package account

// ReadSpawning is readSpawning, for the fuzzer.
var ReadSpawning = readSpawning
