package registry

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Additional writes of a host belong into the store.Tx. A function in the configuration would be a
// second way.
func TestTheRegistryCallsNobodyBack(t *testing.T) {
	var functions []string
	for i := range reflect.TypeFor[Config]().NumField() {
		if f := reflect.TypeFor[Config]().Field(i); f.Type.Kind() == reflect.Func {
			functions = append(functions, f.Name)
		}
	}
	if diff := cmp.Diff([]string{"Now", "Wait"}, functions); diff != "" {
		t.Errorf("functions of Config (-want +got):\n%s", diff)
	}
}
