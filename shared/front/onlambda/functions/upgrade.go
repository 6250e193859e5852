package functions

// UpgradeEvent is the event by which `vacancy deploy` makes Admin upgrade documents. The command
// repeats it until Upgraded.Version equals Upgraded.Current.
const UpgradeEvent = `{"upgrade":true}`

type Upgraded struct {
	Version int `json:"version"`
	Current int `json:"current"` // version that the function reads and writes
}
