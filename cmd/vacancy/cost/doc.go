// Package cost says what a stage costs, before the bill does: a million calls
// line by line, the month of a stage that nobody calls, and the most that one
// day can cost by the limits in the templates.
//
// It reads CloudFormation templates and log lines that others fetch, and
// imports nothing of the project but problem. The invariant: every amount is
// units times a price of one list, and its line says both, with what was
// assumed. Free tiers and discounts count for nothing.
package cost
