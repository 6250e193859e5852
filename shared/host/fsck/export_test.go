package fsck

// RunWith is Run with pages of so many rows, and so many requests in memory.
var RunWith = runWith
