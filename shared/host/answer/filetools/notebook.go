package filetools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// cell is a cell of a notebook. Members that the tool does not change are kept.
type cell = map[string]json.RawMessage

type notebookEdit struct {
	Path   string `json:"notebook_path" canon:"required"`
	ID     string `json:"cell_id"`
	Number *int   `json:"cell_number"`
	Source string `json:"new_source"`
	Type   string `json:"cell_type"`
	Mode   string `json:"edit_mode"`
}

func (s *session) editNotebook(ctx context.Context, in notebookEdit) (string, error) {
	switch {
	case !slices.Contains([]string{"", "replace", "insert", "delete"}, in.Mode):
		return "", problem.Invalid("edit_mode", "replace, insert or delete", fmt.Sprintf("%.40q", in.Mode))
	case !slices.Contains([]string{"", "code", "markdown"}, in.Type):
		return "", problem.Invalid("cell_type", "code or markdown", fmt.Sprintf("%.40q", in.Type))
	}
	return s.change(ctx, in.Path, in.apply)
}

// apply changes a notebook in the format of Jupyter.
func (in *notebookEdit) apply(text string) (string, error) {
	var book map[string]json.RawMessage
	var cells []cell
	err := json.Unmarshal([]byte(text), &book)
	if err == nil {
		err = json.Unmarshal(book["cells"], &cells)
	}
	if err != nil {
		return "", problem.Invalid("notebook_path", "a notebook with cells, in JSON", "another file")
	}
	at, err := in.find(cells)
	if err != nil {
		return "", err
	}
	source := json.RawMessage(canon.AppendString(nil, in.Source))
	switch in.Mode {
	case "delete":
		cells = slices.Delete(cells, at, at+1)
	case "insert":
		c := cell{"cell_type": json.RawMessage(`"code"`), "metadata": json.RawMessage("{}"), "source": source}
		cells = slices.Insert(cells, at+1, c)
		in.setType(c)
	default:
		cells[at]["source"] = source
		in.setType(cells[at])
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err = enc.Encode(cells); err == nil {
		book["cells"] = bytes.Clone(b.Bytes())
		b.Reset()
		err = enc.Encode(book)
	}
	if err != nil {
		return "", problem.Wrap(problem.Internal, err, "the notebook cannot be encoded")
	}
	return b.String(), nil
}

// find returns the index of the cell that is edited. To insert without a cell, it is -1.
func (in *notebookEdit) find(cells []cell) (int, error) {
	at := -1
	switch {
	case in.ID != "":
		at = slices.IndexFunc(cells, func(c cell) bool {
			var id string
			return json.Unmarshal(c["id"], &id) == nil && id == in.ID
		})
	case in.Number != nil:
		at = *in.Number
	case in.Mode == "insert":
		return -1, nil
	}
	if at < 0 || at >= len(cells) {
		return 0, problem.Invalid("cell_id", fmt.Sprintf("the id of one of the %d cells, or cell_number from 0", len(cells)), fmt.Sprintf("%.40q", in.ID))
	}
	return at, nil
}

// setType sets the type of a cell. The outputs of its former source are removed.
func (in *notebookEdit) setType(c cell) {
	if in.Type != "" {
		c["cell_type"] = json.RawMessage(`"` + in.Type + `"`)
	}
	delete(c, "outputs")
	delete(c, "execution_count")
	if string(c["cell_type"]) == `"code"` {
		c["outputs"], c["execution_count"] = json.RawMessage("[]"), json.RawMessage("null")
	}
}
