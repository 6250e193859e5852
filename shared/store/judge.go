package store

// State is what Judge asks a home about, under whatever lock or transaction
// the home judges a commit in. What it returns may alias the home's memory.
type State interface {
	// Held says who holds a position: the row there; or free, when it is the
	// one after the stream's last; or neither, when it lies beyond.
	Held(s Stream, position uint64) (row Row, free bool, err error)
	// At returns a document, Version 0 if absent. Its Data is not looked at.
	At(k Key) (Doc, error)
}

// Judge is Commit's verdict on writes that Check let pass, so that every home
// that decides for itself decides alike: applied already (own), or the refusal
// that comes first, or neither: then the writes are to be applied. An error
// that is none of the refusals is the State's.
func Judge(writes []Write, at State) (own bool, err error) {
	var taken *TakenError
	var bounds *BoundsError
	var conflict *ConflictError
	for _, w := range writes {
		switch w := w.(type) {
		case Append:
			row, free, err := at.Held(w.Stream, w.Position)
			if err != nil {
				return false, err
			}
			if !free && row.Attempt == w.Attempt && row.Position == w.Position {
				return true, nil
			}
			if !free && taken == nil {
				taken = &TakenError{Stream: w.Stream, Position: w.Position, Occupant: CloneRow(row)}
			}
		case Put:
			doc, err := at.At(w.Key)
			if err != nil {
				return false, err
			}
			if doc.Version > 0 && doc.Attempt == w.Attempt {
				return true, nil
			}
			if conflict == nil && doc.Version != w.If {
				conflict = &ConflictError{Key: w.Key, Version: doc.Version}
			}
		case Delete:
			doc, err := at.At(w.Key)
			if err != nil {
				return false, err
			}
			if conflict == nil && doc.Version != 0 && doc.Version != w.If {
				conflict = &ConflictError{Key: w.Key, Version: doc.Version}
			}
		case Add:
			doc, err := at.At(w.Key)
			if err != nil {
				return false, err
			}
			if bounds == nil && !w.Fits(doc.Number) {
				bounds = &BoundsError{Key: w.Key, Number: doc.Number}
			}
		}
	}
	// Not one return of the first that is not nil: a nil *TakenError in an
	// error is not a nil error.
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
