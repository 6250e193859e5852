// Package cost computes the cost of a stage: the lines of a million calls, the month of a stage
// without calls, and the highest cost of a day that the limits in the templates allow. It also
// derives the limits of a stage from the cost of its worst day.
//
// The package reads given CloudFormation templates and log lines. Every amount is a number of units
// times a price of one list. Its line shows both, together with the assumptions. Free tiers and
// discounts are ignored.
package cost
