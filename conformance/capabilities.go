package conformance

import "github.com/weirflow/weir/persistence/driver"

func capabilities() law {
	return law{
		layer: driverLayer, name: "capabilities",
		text: "What the harness declares is what the driver has.",
		cases: []testCase{
			{"declared_is_offered", declaredIsOffered},
		},
	}
}

func declaredIsOffered(c *caseRun) {
	d := c.open()
	_, putter := d.(driver.BatchPutter)
	_, deleter := d.(driver.BatchDeleter)
	for capability, has := range map[Capability]bool{BatchPut: putter, BatchDelete: deleter} {
		if declared := c.h.has(capability); declared != has {
			c.Errorf("capability %q: declared is %t, the driver has it: %t", capability, declared, has)
		}
	}
	for _, capability := range c.h.Capabilities {
		switch capability {
		case InjectedClock, PretendedLimits, BatchPut, BatchDelete:
		default:
			c.Errorf("there is no capability %q", capability)
		}
	}
}
