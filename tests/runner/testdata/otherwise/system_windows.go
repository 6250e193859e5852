package otherwise

const system = 1 // on purpose: it does not compile
