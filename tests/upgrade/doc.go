// Package upgrade tests that this program can continue the hosts of earlier releases, in place and
// from their backups: money, names, chains, texts, tasks and bookings.
//
// The hosts are stored as text in testdata (package oldhost). The command make rebuilds them from
// the commits of their releases.
package upgrade
