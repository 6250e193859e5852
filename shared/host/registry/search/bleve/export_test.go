package bleve

// SetFormat stores another format number in the index.
func (x *Index) SetFormat(f string) error { return x.scorch.SetInternal(formatKey, []byte(f)) }
