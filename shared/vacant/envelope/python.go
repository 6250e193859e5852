package envelope

import "github.com/vacancy-host/vacancy/shared/vacant/canon"

// most is how many bytes of a stranger's value a text repeats.
const most = 60

// python reads the next value and shows it as Python's repr does, for the two
// texts that end in one (PROTOCOL §6.2). The inside of arrays and objects is left
// out.
func python(d *canon.Decoder) (string, error) {
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
	case len(s) > most:
		return s[:most] + "…", nil
	default:
		return s, nil
	}
}
