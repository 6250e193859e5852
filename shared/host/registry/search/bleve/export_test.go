package bleve

// SetFormat gives the index another format number.
func (x *Index) SetFormat(f string) error { return x.scorch.SetInternal(formatKey, []byte(f)) }
