package answer

// ApplySettings is limit, for tests of the settings of tasks.
var ApplySettings = applyTaskLimits
