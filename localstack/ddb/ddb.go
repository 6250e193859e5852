// Package ddb contains the recipe of DynamoDB Local: the Maven project that names its jars, and the
// launcher that restricts it to the loopback address. tests/dynamolocal and the laptop home build
// from the same files, so both run the same server.
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
