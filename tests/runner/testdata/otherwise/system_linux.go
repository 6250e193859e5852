package otherwise

const system = "linux"
