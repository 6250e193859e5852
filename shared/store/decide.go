package store

// State is the content of an adapter, for CheckConditions. The adapter must not change it during
// the check. Returned bytes may alias the adapter's memory.
type State interface {
	// RowAt returns the row at a position. free reports whether the position is the next one of the
	// stream. For a position beyond the next one, RowAt returns the zero Row and false.
	RowAt(s Stream, position uint64) (row Row, free bool, err error)
	// DocAt returns a document. If it is absent, its Version is 0. CheckConditions does not read its
	// Data.
	DocAt(k Key) (Doc, error)
}

// CheckConditions evaluates the conditions of a commit that passed CheckWrites, for adapters whose
// backend cannot evaluate them. It returns true if the writes have already been applied. Otherwise
// err is the first violated condition, or nil if the adapter may apply the writes. CheckConditions
// returns errors of State unchanged.
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
	// Each case returns its own typed error, because a nil *TakenError stored in an error would not
	// be nil.
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
