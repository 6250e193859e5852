// Package cost computes what a stage costs: a million calls line by line, the
// month of a stage without calls, and the highest cost of one day by the limits
// in the templates. It derives the limits of a stage from the cost of its worst
// day.
//
// It reads given CloudFormation templates and log lines. The invariant: every
// amount is units times a price of one list, and its line shows both, with the
// assumptions. Free tiers and discounts do not count.
package cost
