package functions

// UpgradeEvent is the event by which `vacancy deploy` has Admin upgrade the documents of a stage. One
// invocation upgrades what it can in its time; the event is sent again until Upgraded.Version is
// Upgraded.Current.
const UpgradeEvent = `{"upgrade":true}`

// Upgraded is the answer to UpgradeEvent.
type Upgraded struct {
	Version int `json:"version"` // of the documents
	Current int `json:"current"` // version that the function reads and writes
}
