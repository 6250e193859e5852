// Package fsck checks the stored data of a host (shared/README §6): the links, epochs, numbers and
// decisions of every pair, every logbook, hosted vacant, review, registry event and registration, every
// agent, plan and graduation, the balances of accounts, and every hash and signature whose text is
// still readable. It reports and counts damage and does not repair it.
//
// The package never writes. It must not panic or stop early, whatever bytes a store contains. It
// reports a broken row and continues with the next row. It uses only the stored data and fixed
// rules, and not the memory of a running host.
//
// # How damage does not spread
//
// After each row the check has two positions of the chain: the position according to the rules, and
// the position that the row itself contains. The next row is correct if it follows one of them. A
// row with a wrong epoch is therefore one finding and not the first of a million. After an
// unreadable row the position is unknown, and the next row is accepted.
//
// # A host at work
//
// Tables and pages are not snapshots, so data that must agree is read at different times. If the
// first reading of the host has findings, a second reading follows. A finding of both readings is
// damage. A finding of only the first reading was incomplete data that is now complete. A finding
// of only the second reading is due to a change since the first, which Result.Changing counts.
//
// Balances and the logbooks of parents, children and models change so often that both readings
// would find differences. Each reading therefore reads their new rows before it compares them. A
// balance that differs by more than the new rows allow is always a finding.
//
// # Memory
//
// Rows are read in pages. For the pair under check, memory contains one bit per request, which says
// that the request is decided, and the hash, epoch and response tip of the last few thousand
// requests. Responses are almost in the order of their requests. For a late response, a page of
// requests is read again. Memory also contains sums per child of the entries in its logbook and its
// parent's that concern both, and the times of each graduation, because the two sides are read at
// different times and compared at the end. It contains the next position of each stream whose rows
// move money, and a hash of each finding of the first reading. Signatures are verified in batches
// on all processors, and findings keep the order of the rows.
package fsck
