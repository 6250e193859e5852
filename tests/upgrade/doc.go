// Package upgrade tests that this program continues the hosts of earlier releases, in place and from
// their backups: money, names, chains, texts, tasks and bookings.
//
// The hosts are kept as text in testdata (package oldhost); make rebuilds them from the commits of
// their releases.
package upgrade
