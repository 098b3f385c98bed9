package conformance_test

var checkpointScenarios, restoreScenarios []scenario
