package functions

// UpgradeEvent is the event by which `vacancy deploy` makes Admin upgrade the documents of a stage.
// One invocation upgrades as many documents as its time allows. The command sends the event again
// until Upgraded.Version equals Upgraded.Current.
const UpgradeEvent = `{"upgrade":true}`

type Upgraded struct {
	Version int `json:"version"` // version of the documents
	Current int `json:"current"` // version that the function reads and writes
}
