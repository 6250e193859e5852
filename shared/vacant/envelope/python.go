package envelope

import "github.com/vacancy-host/vacancy/shared/vacant/canon"

const maxQuotedBytes = 60

// readPythonRepr reads the next value and formats it like Python's repr (PROTOCOL §6.2). It omits
// the contents of arrays and objects.
func readPythonRepr(d *canon.Decoder) (string, error) {
	switch d.Kind() {
	case canon.Array:
		return "[…]", d.Skip()
	case canon.Object:
		return "{…}", d.Skip()
	}
	v, err := d.Value()
	if err != nil {
		return "", err
	}
	switch s := string(v.AppendCJ(nil)); {
	case s == "null":
		return "None", nil
	case s == "true":
		return "True", nil
	case s == "false":
		return "False", nil
	case len(s) > maxQuotedBytes:
		return s[:maxQuotedBytes] + "…", nil
	default:
		return s, nil
	}
}
