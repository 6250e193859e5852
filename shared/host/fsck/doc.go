// Package fsck checks the stored data of a host (shared/README §6): pairs (hash chains, epochs,
// sequence numbers, decisions), logbooks, hosted vacants, reviews, registry events and
// registrations, agents, plans, graduations, account balances, and all hashes and signatures whose
// text is still readable. A pair consists of the requests of one caller to one vacant and of the
// responses. An epoch is the part of a pair's chain between two resets. Package fsck reports and
// counts damage and does not repair it.
//
// The package never writes. It must not panic or stop early, whatever bytes a store contains. It
// reports a broken row and continues with the next row. It uses only the stored data and fixed
// rules, and not the memory of a running host.
//
// # How damage does not spread
//
// After each row the check has two states of the chain: the state according to the rules, and the
// state that the row itself claims. The next row is correct if it follows one of them. A row with a
// wrong epoch is therefore one finding and not the first of a million. After an unreadable row the
// state is unknown, and the check continues with the state that the next row claims.
//
// # Checking a running host
//
// Tables are read page by page and not as a snapshot, so related data is read at different times.
// If the first reading of the host has findings, a second reading follows. A finding of both
// readings is damage. A finding of only the first reading was incomplete data that is now complete.
// A finding of only the second reading is due to a change since the first. Result.ChangingFindings
// counts the findings of only the second reading.
//
// Balances, and logbook entries about children and models' answers, change so often that both
// readings would find differences. Each reading therefore reads the new rows before it compares
// this data. A balance that differs by more than the new rows allow is always a finding.
//
// # Memory
//
// Rows are read in pages. For the pair under check, memory contains one bit per request (decided or
// not) and a summary of the last few thousand requests. For a response to an earlier request, a
// page of requests is read again. This is rare, because responses are almost in the order of their
// requests. Data that is compared at the end is also in memory: sums of the logbook entries that
// concern a parent and its child, and the times of graduations. Memory also contains the next
// position of each stream whose rows move money, and a hash of each finding of the first reading.
// Signatures are verified in batches on all processors, and findings keep the order of the rows.
package fsck
