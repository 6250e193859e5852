package store

// State gives CheckConditions access to the content of an adapter, which must not change during the
// check.
type State interface {
	// RowAt returns the row at a position, or the zero Row. free reports whether the position is the
	// next one of the stream.
	RowAt(s Stream, position uint64) (row Row, free bool, err error)
	DocAt(k Key) (Doc, error)
}

// CheckConditions evaluates the conditions of a commit that passed CheckWrites, for adapters whose
// backend cannot. err is the first violated condition.
func CheckConditions(writes []Write, state State) (alreadyApplied bool, err error) {
	var taken *TakenError
	var bounds *BoundsError
	var conflict *ConflictError
	for _, w := range writes {
		switch w := w.(type) {
		case Append:
			row, isFree, err := state.RowAt(w.Stream, w.Position)
			if err != nil {
				return false, err
			}
			if !isFree && row.WriteID == w.WriteID && row.Position == w.Position {
				return true, nil
			}
			if !isFree && taken == nil {
				taken = &TakenError{Stream: w.Stream, Position: w.Position, Occupant: CloneRow(row)}
			}
		case Put:
			doc, err := state.DocAt(w.Key)
			if err != nil {
				return false, err
			}
			if doc.Version > 0 && doc.WriteID == w.WriteID {
				return true, nil
			}
			if conflict == nil && doc.Version != w.IfVersion {
				conflict = &ConflictError{Key: w.Key, Version: doc.Version}
			}
		case Delete:
			doc, err := state.DocAt(w.Key)
			if err != nil {
				return false, err
			}
			if conflict == nil && doc.Version != 0 && doc.Version != w.IfVersion {
				conflict = &ConflictError{Key: w.Key, Version: doc.Version}
			}
		case Add:
			doc, err := state.DocAt(w.Key)
			if err != nil {
				return false, err
			}
			if bounds == nil && !w.Fits(doc.Number) {
				bounds = &BoundsError{Key: w.Key, Number: doc.Number}
			}
		}
	}
	// A nil *TakenError stored in an error would not be nil.
	switch {
	case taken != nil:
		return false, taken
	case bounds != nil:
		return false, bounds
	case conflict != nil:
		return false, conflict
	}
	return false, nil
}
