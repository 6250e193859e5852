// Package fsck checks what a host stores: the links, epochs, numbers and
// decisions of every pair, every logbook, hosted vacant, registry event and
// registration, every agent, plan and graduation, and every hash and signature whose
// text is still readable (shared/README §6). It reports and counts damage and
// repairs nothing.
//
// The invariants: it writes nothing. No bytes in a store make it panic or stop
// early. A broken row is reported and the next one is checked. Rows are judged
// by rules only, never by the memory of a running host.
//
// # How damage does not spread
//
// After each row two positions are kept: where the chain must stand by the
// rules, and where the row itself says that it stands. The next row is right if
// it follows either. So a row with a wrong epoch is one finding and not the
// first of a million. After an unreadable row nothing is known, and the next
// row is accepted.
//
// # A host at work
//
// Tables and pages are not a snapshot, so two things that must agree are read at
// different times. If a first reading of the host finds anything, a second
// reading follows. What both find is damage. What only the first finds was
// complete and correct later. What only the second finds has changed meanwhile,
// which Result.Changing counts.
//
// Balances, and the logbooks of parents, children and models, change so often
// that both readings would find them different. So each reading reads their new
// rows before it compares them. A balance that differs by more than the new rows
// allow is a finding in any case.
//
// # Memory
//
// Rows are read in pages. For the pair under check, memory holds one bit for
// each request, which says that it is decided, and hash, epoch and response tip
// of the last few thousand requests: responses come nearly in the order of
// their requests, and for a late response a page of requests is read again. For
// each child it holds sums of what its logbook and its parent's say of each
// other, and for each graduation its time; the two sides are read at different
// times and compared at the end. For each stream whose rows move money it holds
// the position up to which it was read, and for each finding of the first reading a hash.
// Signatures are verified in batches on all processors; findings keep the order of the rows.
package fsck
