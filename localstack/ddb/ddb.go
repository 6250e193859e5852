// Package ddb contains the files from which package tests/dynamolocal builds DynamoDB Local.
package ddb

import _ "embed"

// POM is the Maven project whose runtime dependencies are the server.
//
//go:embed pom.xml
var POM []byte

// Launcher restricts the server to the loopback address.
//
//go:embed LoopbackDynamo.java
var Launcher []byte
