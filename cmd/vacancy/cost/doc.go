// Package cost computes what a stage costs: for a number of calls, per month without calls, and on
// the worst day that its limits allow. It also derives a stage's limits from the cost of the worst
// day. Free tiers and discounts are ignored.
package cost
