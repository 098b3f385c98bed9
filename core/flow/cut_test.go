package flow_test

import (
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/core/flow/flowtest"
)

// The law of resume, over the reference model. The modules conformance and
// conformance/backends put every real store under it.
func TestARunThatIsCutEndsLikeOneThatIsNot(t *testing.T) {
	store := coretest.New()
	flowtest.CutAnywhere(t, flowtest.Seeds{To: 150}, func() (core.FlowPersistence, error) { return store, nil })
}
