// Package cost computes the cost of a stage: the cost of a number of calls, the monthly cost without
// calls, and the highest daily cost that the limits in the CloudFormation templates allow (the worst
// day). It also derives the limits of a stage from the cost that its worst day may have.
//
// Each result is a list of lines. A line is a number of units times a price from one price list, and
// shows both together with the assumptions. Free tiers and discounts are ignored.
package cost
