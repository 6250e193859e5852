package filebook

// syncDir does nothing: Windows keeps no handle of a folder that can be
// synced, and its file systems journal a rename.
func syncDir(string) error { return nil }
