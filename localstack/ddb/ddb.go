// Package ddb contains the recipe of DynamoDB Local: the Maven project that names its jars, and the
// launcher that restricts it to the loopback address. Package tests/dynamolocal builds the server
// from these files, for tests and for localstack/server.
package ddb

import _ "embed"

// POM is the Maven project whose runtime dependencies are the server.
//
//go:embed pom.xml
var POM []byte

// Launcher is the source of the class LoopbackDynamo.
//
//go:embed LoopbackDynamo.java
var Launcher []byte
