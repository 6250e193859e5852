package fsck

// RunWith is Run with a page size and a number of requests in memory.
var RunWith = runWith
