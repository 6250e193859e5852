// Package fsck checks the stored data of a host (shared/README §6): streams, documents, files,
// balances, and all hashes and signatures whose text is still readable. It reports damage and does
// not repair it. It never writes, and it must not panic or stop early, whatever bytes a store
// contains.
//
// A pair consists of the requests of one caller to one vacant and of the responses. An epoch is the
// part of a pair's chain between two resets. After each row the check has two states of the chain:
// the state according to the rules, and the state that the row itself claims. The next row is
// correct if it follows one of the two states. A row with a wrong epoch therefore causes one
// finding, even if many rows follow.
//
// # Checking a running host
//
// Tables are read page by page and not as a snapshot. If the first reading of the host has
// findings, a second reading follows. A finding of both readings is damage. A finding of only one
// reading is due to a change during the check.
//
// Balances and logbooks change so often that both readings could find differences. Each reading
// therefore reads the new rows before it compares this data. A balance that differs by more than
// the new rows allow is always a finding.
//
// # Memory
//
// Rows are read in pages. The check stores one bit per request of the current pair, and sums per
// account and per parent and child.
package fsck
