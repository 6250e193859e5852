package filetools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

type notebookEdit struct {
	Path     string `json:"notebook_path" canon:"required" jsonschema:"the path of the notebook"`
	ID       string `json:"cell_id,omitempty" jsonschema:"the id of the cell, or of the cell after which to insert"`
	Number   *int   `json:"cell_number,omitempty" jsonschema:"the number of the cell, from 0, instead of its id"`
	Source   string `json:"new_source,omitempty" jsonschema:"the text of the cell"`
	CellType string `json:"cell_type,omitempty" jsonschema:"code or markdown"`
	Mode     string `json:"edit_mode,omitempty" jsonschema:"replace, insert or delete; the default is replace"`
}

func (s *session) editNotebook(ctx context.Context, in notebookEdit) (string, error) {
	switch {
	case !slices.Contains([]string{"", "replace", "insert", "delete"}, in.Mode):
		return "", problem.Invalid("edit_mode", "replace, insert or delete", fmt.Sprintf("%.40q", in.Mode))
	case !slices.Contains([]string{"", "code", "markdown"}, in.CellType):
		return "", problem.Invalid("cell_type", "code or markdown", fmt.Sprintf("%.40q", in.CellType))
	}
	return s.saveFile(ctx, in.Path, true, in.editCells)
}

// editCells edits a Jupyter notebook and preserves other members. Its errors must not contain
// contents of the file, because they are logged.
func (in *notebookEdit) editCells(text string) (string, error) {
	var notebookMembers map[string]any
	var notebook struct {
		Cells []map[string]json.RawMessage `json:"cells"`
	}
	err := errors.Join(json.Unmarshal([]byte(text), &notebookMembers), json.Unmarshal([]byte(text), &notebook))
	cells := notebook.Cells
	if err != nil || cells == nil || slices.ContainsFunc(cells, func(c map[string]json.RawMessage) bool { return c == nil }) {
		return "", problem.Invalid("notebook_path", "a notebook with cells, in JSON", "another file")
	}
	index, isNew := -1, in.Mode == "insert"
	switch {
	case in.ID != "":
		index = slices.IndexFunc(cells, func(c map[string]json.RawMessage) bool { return string(c["id"]) == strconv.Quote(in.ID) })
	case in.Number != nil:
		index = *in.Number
	}
	if isFirst := isNew && in.ID == "" && in.Number == nil; !isFirst && (index < 0 || index >= len(cells)) {
		return "", problem.Invalid("cell_id", fmt.Sprintf("the id of one of the %d cells, or cell_number from 0", len(cells)), "none of them")
	}
	if in.Mode == "delete" {
		cells = slices.Delete(cells, index, index+1)
	} else {
		if isNew {
			index++
			cells = slices.Insert(cells, index, map[string]json.RawMessage{"cell_type": json.RawMessage(`"code"`), "metadata": json.RawMessage("{}")})
		}
		c := cells[index]
		c["source"] = canon.AppendString(nil, in.Source)
		if in.CellType != "" {
			c["cell_type"] = json.RawMessage(`"` + in.CellType + `"`)
		}
		delete(c, "outputs") // outputs of the previous source
		delete(c, "execution_count")
		if string(c["cell_type"]) == `"code"` {
			c["outputs"], c["execution_count"] = json.RawMessage("[]"), json.RawMessage("null")
		}
	}
	notebookMembers["cells"] = cells
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(notebookMembers); err != nil {
		return "", problem.Wrap(problem.Internal, err, "the notebook cannot be encoded")
	}
	return b.String(), nil
}
