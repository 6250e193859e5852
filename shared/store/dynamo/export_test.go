package dynamo

// RowItem lets benchmarks load rows in bulk, in the layout of the adapter.
var RowItem = rowItem
