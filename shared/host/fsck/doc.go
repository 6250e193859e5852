// Package fsck checks what a host stores: the links, epochs, numbers and
// decisions of every pair, every logbook, hosted vacant, registry event and
// registration, every plan and graduation, and every hash and signature whose
// text is still readable (shared/README §6). It finds, names and counts damage,
// and repairs nothing.
//
// The invariants: it writes nothing. No bytes in a store make it panic or stop
// early. A broken row is reported and the next one is checked. Rows are judged
// by rules only, never by the memory of a running host.
//
// # How damage does not spread
//
// After each row two places are kept: where the chain must stand by the rules,
// and where the row itself says that it stands. The next row is right if it
// follows either of them. So a row with a wrong epoch is one finding and not
// the first of a million. After a row that cannot be read nothing is known, and
// the next one is believed.
//
// # What it keeps in memory
//
// Rows are read in pages and forgotten. Of the pair under check it keeps one
// bit for each request, which says that it is decided, and what decisions are
// held against (hash, epoch, seen) for the last few thousand requests:
// responses come nearly in the order of their requests, and for one that comes
// late a page of requests is read again. Of each child it keeps sums of what
// its logbook and its parent's say of each other, and of each graduation when
// it was; the two sides are read at different times, and held together at the
// end. Signatures are verified in batches, on all processors; findings keep the
// order of the rows.
package fsck
