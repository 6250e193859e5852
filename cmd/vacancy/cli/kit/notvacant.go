package kit

// NotVacantError reports that a URL does not belong to a vacant.
type NotVacantError struct{ Cause error }

func (e NotVacantError) Error() string { return e.Cause.Error() }

func (e NotVacantError) Unwrap() error { return e.Cause }
