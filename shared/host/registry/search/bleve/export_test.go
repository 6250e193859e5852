package bleve

// SetFormat makes the index one of another format.
func (x *Index) SetFormat(f string) error { return x.scorch.SetInternal(formatKey, []byte(f)) }
